package linux

import (
	"encoding/binary"
	"io"
	"strings"
)

const (
	elfHeaderBytes = 64   // size of a 64-bit header; a 32-bit one is shorter
	maxHeaderBytes = 4096 // of all program headers; the kernel accepts no more
	maxPathBytes   = 4096
)

// loaderOf returns the path of the loader (ELF interpreter) that a binary names; empty if it names
// none, or the file is no such binary. head is the beginning of the file.
//
// Source: elf(5), PT_INTERP. Package debug/elf would read all sections.
func loaderOf(file io.ReaderAt, head []byte) string {
	const classOf, orderOf, is64, isBig, ptInterp = 4, 5, 2, 2, 3
	if len(head) < elfHeaderBytes || string(head[:4]) != "\x7fELF" {
		return ""
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[orderOf] == isBig {
		order = binary.BigEndian
	}
	wide := head[classOf] == is64
	word := func(b []byte, narrowAt, wideAt int) int64 {
		if wide {
			return int64(order.Uint64(b[wideAt:]))
		}
		return int64(order.Uint32(b[narrowAt:]))
	}
	half, least := 42, 20 // offset of the size of a program header, and least size of one
	if wide {
		half, least = 54, 40
	}
	size, count := int(order.Uint16(head[half:])), int(order.Uint16(head[half+2:]))
	if size < least || size*count > maxHeaderBytes {
		return ""
	}
	headers := make([]byte, size*count)
	if _, err := file.ReadAt(headers, word(head, 28, 32)); err != nil {
		return ""
	}
	for ; len(headers) > 0; headers = headers[size:] {
		if order.Uint32(headers) != ptInterp {
			continue
		}
		length := word(headers, 16, 32)
		if length <= 0 || length > maxPathBytes {
			return ""
		}
		name := make([]byte, length)
		if _, err := file.ReadAt(name, word(headers, 4, 8)); err != nil {
			return ""
		}
		path, _, _ := strings.Cut(string(name), "\x00")
		return path
	}
	return ""
}
