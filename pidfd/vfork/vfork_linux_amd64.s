//go:build !superd_forkexec

#include "textflag.h"

// func vfork(trap, a1, a2, a3, childTID uintptr) (r uintptr)
//
// The child comes back first, on the same stack, and what it calls then overwrites the return
// address there. So that is kept in a register, which each of the two has for itself.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-48
	MOVQ trap+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	MOVQ a3+24(FP), DX
	MOVQ childTID+32(FP), R10
	MOVQ R10, R8
	XORL R9, R9
	POPQ R12
	SYSCALL
	PUSHQ R12
	MOVQ AX, r+40(FP)
	RET
