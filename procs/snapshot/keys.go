package snapshot

import (
	"fmt"
	"strconv"
	"strings"
)

// The journal has these keys:
//
//	superd          a [Superd]
//	config/N        a configuration, from [config.Config.Archive]
//	instance/NAME   an [Instance]
//	schedule/NAME   a [schedule.State]: after an orderly end
//	roll/NAME       a [Roll], of a program
//	scale/NAME      a [Scale], of a program
//	socket/NAME     a [Socket], by its name in the descriptor store
//	start/NAME/N    a [Start]: its result is not yet in the instance's record
//	totals          [counters.Totals], as a client has got them
const (
	SuperdKey = "superd"
	TotalsKey = "totals"

	configWord   = "config"
	instanceWord = "instance"
	rollWord     = "roll"
	scheduleWord = "schedule"
	scaleWord    = "scale"
	socketWord   = "socket"
	startWord    = "start"
)

// ConfigKey returns the key of the configuration with that number.
func ConfigKey(number uint64) string { return configWord + "/" + strconv.FormatUint(number, 10) }

// InstanceKey returns the key of an instance.
func InstanceKey(name string) string { return instanceWord + "/" + name }

// ScheduleKey returns the key of the schedule of an instance.
func ScheduleKey(name string) string { return scheduleWord + "/" + name }

// ScaleKey returns the key of the scale of a program.
func ScaleKey(program string) string { return scaleWord + "/" + program }

// SocketKey returns the key of the socket that is stored under that name.
func SocketKey(stored string) string { return socketWord + "/" + stored }

// RollKey returns the key of the rolling restart of a program.
func RollKey(program string) string { return rollWord + "/" + program }

// StartKey returns the key of the start of an instance with that number.
func StartKey(name string, number uint64) string {
	return fmt.Sprintf("%s/%s/%d", startWord, name, number)
}

// A kind is the kind of a record.
type kind uint8

const (
	unknownRecord kind = iota // of another version of superd: it stays in the journal
	superdRecord
	configRecord
	instanceRecord
	scheduleRecord
	scaleRecord
	socketRecord
	startRecord
	rollRecord
	totalsRecord
	kindCount
)

// A key is a parsed key of the journal.
type key struct {
	kind kind
	// Of an instance; of a program in a scaleRecord and a rollRecord; of a descriptor in a
	// socketRecord
	name   string
	number uint64 // of a configuration, or of a start: these are counted from 1
}

// parseKey parses a key of the journal.
func parseKey(text string) key {
	if text == SuperdKey {
		return key{kind: superdRecord}
	}
	if text == TotalsKey {
		return key{kind: totalsRecord}
	}
	word, name, _ := strings.Cut(text, "/")
	switch word {
	case configWord:
		return numbered(configRecord, "", name)
	case instanceWord:
		return named(instanceRecord, name)
	case scheduleWord:
		return named(scheduleRecord, name)
	case scaleWord:
		return named(scaleRecord, name)
	case socketWord:
		return named(socketRecord, name)
	case rollWord:
		return named(rollRecord, name)
	case startWord:
		if i := strings.LastIndexByte(name, '/'); i > 0 {
			return numbered(startRecord, name[:i], name[i+1:])
		}
	}
	return key{}
}

func named(k kind, name string) key {
	if name == "" {
		return key{}
	}
	return key{kind: k, name: name}
}

func numbered(k kind, name, digits string) key {
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || number == 0 {
		return key{}
	}
	return key{k, name, number}
}
