package loop

// Local returns the value of type T that belongs to l: the same at each call, at first the zero
// value. A package built upon the loop keeps its state per loop there, under an unexported type.
func Local[T any](l *Loop) *T {
	for _, v := range l.locals {
		if v, ok := v.(*T); ok {
			return v
		}
	}
	v := new(T)
	l.locals = append(l.locals, v)
	return v
}
