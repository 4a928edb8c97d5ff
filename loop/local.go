package loop

// Local returns the value of type T that belongs to l: the same at each call, at first the zero value. It
// is where a package that builds upon the loop keeps what it has one of for each loop, under a type
// that nobody else can name.
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
