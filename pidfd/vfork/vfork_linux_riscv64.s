//go:build !superd_forkexec

#include "textflag.h"

// func vfork(trap, a1, a2, a3, childTID uintptr) (r uintptr)
//
// The return address is in the link register, so the child, which comes back first on the same
// stack, does not overwrite it.
TEXT ·vfork(SB), NOSPLIT, $0-48
	MOV trap+0(FP), A7
	MOV a1+8(FP), A0
	MOV a2+16(FP), A1
	MOV a3+24(FP), A2
	MOV childTID+32(FP), A3
	MOV A3, A4
	ECALL
	MOV A0, r+40(FP)
	RET
