// Package vfork forks a process that shares the parent's memory until its exec, in a way that the
// Go runtime takes for an ordinary system call. It is the only package of superd that uses symbols
// of the runtime and assembly. Package pidfd decides what a child gets.
//
// It exists on Linux on amd64, arm64 and riscv64. On other architectures, and with the build tag
// superd_forkexec, it is empty, and pidfd uses syscall.ForkExec. Decision 2 in docs/decisions says
// why that is not enough everywhere.
//
// # How a fork proceeds
//
// [Spec.Clone] blocks all signals, tells the runtime that a system call begins, and makes the
// system call clone with CLONE_VM and CLONE_VFORK. The kernel suspends the calling thread until the
// child has executed its program or has ended. Meanwhile the child runs on the same memory and the
// same stack, in frames below that of Clone. The other threads of the parent go on.
//
// The thread that waits has no processor of Go's after 20 µs to 10 ms, when Go's monitor (sysmon)
// finds that the system call takes long. So neither a garbage collection nor another goroutine
// waits for an exec. syscall.ForkExec does not tell the runtime, and keeps its processor.
//
// # What each symbol relies on
//
// The Go project lists these symbols as used by other packages, with the remark "Do not remove or
// change the type signature" (go.dev/issue/67401). A linker error, or a failing test here or in
// pidfd, shows a release that changes them.
//
// runtime.entersyscall, runtime.exitsyscall. They mark the goroutine as being in a system call. The
// runtime relies on the following, and Clone keeps to it:
//
//   - The frame that called entersyscall is still there when exitsyscall is called: both are called
//     in Clone, and the child returns to no frame above its own.
//   - In between nothing grows the stack, allocates, or has a write barrier: whatever the child
//     calls is nosplit, and makes system calls by syscall.RawSyscall only.
//   - In between nothing needs a processor of Go's. The functions of the race detector do. So they
//     are kept out by norace; with -cover the compiler adds them all the same, so a build with the
//     race detector does not call the two at all ([RaceDetector]), and its forks keep a processor.
//   - The collector may scan the goroutine's stack from Clone's frame upwards, while the child
//     writes below it.
//
// syscall.runtime_AfterForkInChild. It sets each signal that Go handles to its default, by system
// calls, in the child. It sets the global inForkedChild meanwhile, which only cgo reads. It
// restores the signal mask that the runtime has noted for the thread; the child sets its own next.
// It is called only where clone has no CLONE_CLEAR_SIGHAND, with which the kernel does the same in
// one step.
//
// # What the assembly relies on
//
// vfork in vfork_linux_*.s makes one system call. Parent and child both return from it, the child
// first, on the same stack. What the child calls next overwrites the words below Clone's frame. So
// the assembly keeps the return address in a register across the system call, since each of the
// two has its own registers: on amd64 in R12, which SYSCALL preserves, on arm64 and riscv64
// in the link register, as a leaf function without a frame has it there. The result is written to
// the caller's frame: the child writes 0 there and reads it at once, and then the parent writes the
// pid.
//
// The argument order of clone differs between architectures, so its fourth and fifth argument are
// the same here.
//
// # What the kernel gives
//
// The thread pointer, and so the runtime's g, is the parent's in the child, as CLONE_SETTLS is not
// given. The child has the parent's signal handlers (not CLONE_SIGHAND: a copy of them), which must
// not run on that memory: hence the blocked signals. With CLONE_FILES it has the parent's
// descriptor table until it makes its own by close_range with CLOSE_RANGE_UNSHARE.
//
// Source: clone(2), vfork(2), close_range(2); reentersyscall, exitsyscall and
// syscall_runtime_AfterForkInChild in runtime/proc.go of Go 1.26; package syscall, exec_linux.go,
// which forks in the same way but without entersyscall.
package vfork
