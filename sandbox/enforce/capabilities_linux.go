package enforce

import (
	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// dropBounding drops the capabilities that the plan does not keep, those that this binary has no
// name for included.
func (s *Sandbox) dropBounding() error {
	for number := range 64 {
		if s.plan.Bounding.Has(number) {
			continue
		}
		set, err := prctl(unix.PR_CAPBSET_READ, number)
		if err != nil {
			return nil // this kernel has no such capability
		}
		if set == 0 {
			continue
		}
		if _, err = prctl(unix.PR_CAPBSET_DROP, number); err != nil {
			return s.check("capabilities", "", err)
		}
	}
	return nil
}

// inherited is the key of the capabilities that the program gets from this thread.
func (s *Sandbox) inherited() string {
	if s.plan.Ambient == 0 && s.plan.Bounding != nil {
		return "capabilities"
	}
	return "ambient_capabilities"
}

// setAmbient makes the ambient and the inheritable set those of the plan: with none of superd's
// own capabilities, if the plan names any, or if the thread has them for a user namespace. The
// bounding set does not restrict what is inherited.
func (s *Sandbox) setAmbient() error {
	if s.plan.Ambient == 0 && s.plan.Bounding == nil && s.plan.UserNamespace == nil {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return s.check(s.inherited(), "", err)
	}
	// In a user namespace of its own the program would have no use for them outside of it.
	if s.plan.Ambient != 0 && s.plan.UserNamespace != nil && !s.plan.Network {
		return s.check("ambient_capabilities", "", unix.EPERM)
	}
	if err := s.setInheritable(); err != nil {
		return s.check(s.inherited(), "", err)
	}
	for number, name := range sandbox.Capabilities() {
		if !s.plan.Ambient.Has(number) {
			continue
		}
		err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(number), 0, 0)
		if err := s.check("ambient_capabilities", name, err); err != nil {
			return err
		}
	}
	return nil
}

// setInheritable makes the ambient capabilities inheritable, as far as they are permitted, and the
// permitted ones effective, which a change of the user has ended.
func (s *Sandbox) setInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	for i := range sets {
		sets[i].Effective = sets[i].Permitted
		sets[i].Inheritable = uint32(s.plan.Ambient>>(32*i)) & sets[i].Permitted
	}
	return unix.Capset(&header, &sets[0])
}

func prctl(option, argument int) (uintptr, error) {
	value, _, errno := unix.RawSyscall6(unix.SYS_PRCTL, uintptr(option), uintptr(argument), 0, 0, 0, 0)
	return value, result(errno)
}

// isAdmin reports whether the thread may apply a filter without no_new_privs.
func isAdmin() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&header, &sets[0])
	return err == nil && sets[0].Effective>>unix.CAP_SYS_ADMIN&1 != 0
}
