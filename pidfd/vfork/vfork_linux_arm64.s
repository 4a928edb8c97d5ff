//go:build !superd_forkexec

#include "textflag.h"

// func vfork(trap, a1, a2, a3, childTID uintptr) (r uintptr)
//
// The return address is in the link register, so the child, which comes back first on the same
// stack, does not overwrite it.
TEXT ·vfork(SB), NOSPLIT, $0-48
	MOVD trap+0(FP), R8
	MOVD a1+8(FP), R0
	MOVD a2+16(FP), R1
	MOVD a3+24(FP), R2
	MOVD childTID+32(FP), R3
	MOVD R3, R4
	SVC
	MOVD R0, r+40(FP)
	RET
