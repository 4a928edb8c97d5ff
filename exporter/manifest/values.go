package manifest

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"superd/config"
	"superd/config/codec"
	"superd/config/directory"
	"superd/config/listen"
)

// Seconds returns a duration in whole seconds, rounded up.
func Seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// Cron returns a line of cron for a schedule. exact is false if it runs at other times: cron has
// only periods that divide an hour or a day.
func Cron(schedule string) (line string, exact bool) {
	parsed, err := codec.ParseSchedule(schedule)
	if err != nil || parsed.Every == 0 {
		return plainCron(strings.TrimSpace(schedule), parsed), err == nil
	}
	every := max(parsed.Every, time.Minute)
	minutes := int(every / time.Minute)
	switch {
	case minutes < 60:
		for 60%minutes != 0 {
			minutes--
		}
		line = fmt.Sprintf("*/%d * * * *", minutes)
		if minutes == 1 {
			line = "* * * * *"
		}
	case minutes < 24*60:
		hours := minutes / 60
		for 24%hours != 0 {
			hours--
		}
		minutes = hours * 60
		line = fmt.Sprintf("0 */%d * * *", hours)
		if hours == 1 {
			line = "0 * * * *"
		}
	default:
		minutes, line = 24*60, "0 0 * * *"
	}
	return line, time.Duration(minutes)*time.Minute == parsed.Every
}

// plainCron returns a line of cron without what only some readers know: the word @midnight, and 7
// for Sunday.
func plainCron(line string, parsed codec.Schedule) string {
	fields := strings.Fields(line)
	const dayOfWeek = 4
	switch {
	case line == "@midnight":
		return "@daily"
	case len(fields) <= dayOfWeek || !strings.Contains(fields[dayOfWeek], "7"):
		return strings.Join(fields, " ")
	}
	var days []string
	for day := range 7 {
		if parsed.Cron.Dow&(1<<day) != 0 {
			days = append(days, strconv.Itoa(day))
		}
	}
	fields[dayOfWeek] = strings.Join(days, ",")
	return strings.Join(fields, " ")
}

// A Port is what a socket listens on.
type Port struct {
	Socket string
	Host   string // address of the interface; "": all
	Number int
	UDP    bool
}

// Ports returns the ports of a program's sockets, each once. Paths have none.
func (p *Program) Ports() (all []Port) {
	if p.Sockets == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, used := range p.Sockets.List {
		for _, a := range used.Listen {
			port := Port{Socket: used.Name, UDP: a.Network.IsUDP()}
			if n := portOf(a); a.Network.IsIP() && !seen[fmt.Sprint(n, port.UDP)] {
				seen[fmt.Sprint(n, port.UDP)] = true
				port.Number, port.Host = n, hostOf(a)
				all = append(all, port)
			}
		}
	}
	return all
}

// hostOf returns the address of the interface on which a listens; "" for all.
func hostOf(a listen.Address) string {
	host, _, _ := net.SplitHostPort(a.Address)
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return ""
	}
	return host
}

func portOf(a listen.Address) int {
	_, text, _ := net.SplitHostPort(a.Address)
	n, _ := strconv.Atoi(text) // the address is valid
	return n
}

// A Check is one of ready or health. It has a command, or a host and a port.
type Check struct {
	Key        string // ready.http
	Exec       []string
	Host, Port string
	Path       string // of HTTP, with its query; "": TCP
	HTTPS      bool
	Interval   time.Duration
	Timeout    time.Duration
	Failures   int
}

// ReadyCheck returns the check of ready, nil if there is none that another supervisor can make.
func (p *Program) ReadyCheck(n Notation) *Check {
	if r := p.Ready; r != nil {
		return p.check("ready", r.TCP, r.HTTP, r.Exec, n, Check{Interval: r.Interval, Timeout: r.Timeout})
	}
	return nil
}

// HealthCheck returns the check of health, nil if there is none.
func (p *Program) HealthCheck(n Notation) *Check {
	if h := p.Health; h != nil {
		return p.check("health", h.TCP, h.HTTP, h.Exec, n,
			Check{Interval: h.Interval, Timeout: h.Timeout, Failures: h.Failures})
	}
	return nil
}

func (p *Program) check(table, tcp, http string, exec []string, n Notation, c Check) *Check {
	plain := Notation{Escape: func(s string) string { return s }}
	switch {
	case exec != nil:
		c.Key = table + ".exec"
		c.Exec = p.Arguments(c.Key, exec, n)
		return &c
	case tcp != "":
		c.Key = table + ".tcp"
		host, port, err := net.SplitHostPort(p.Text(c.Key, tcp, plain))
		c.Host, c.Port = host, port
		return p.checked(&c, err)
	case http != "":
		c.Key = table + ".http"
		u, err := url.Parse(p.Text(c.Key, http, plain))
		if err != nil {
			return p.checked(&c, err)
		}
		c.Host, c.Port, c.HTTPS, c.Path = u.Hostname(), u.Port(), u.Scheme == "https", u.RequestURI()
		if c.Port == "" {
			c.Port = map[bool]string{true: "443", false: "80"}[c.HTTPS]
		}
		return p.checked(&c, nil)
	}
	return nil
}

// checked returns a check whose port is a number.
func (p *Program) checked(c *Check, err error) *Check {
	if n, atoiErr := strconv.Atoi(c.Port); err != nil || atoiErr != nil || n < 1 || n > 65535 {
		p.Note(c.Key, "its port is not known before the start: write the check")
		return nil
	}
	return c
}

// Local reports whether the check is of no address in particular, or of the loopback interface.
func (c *Check) Local() bool {
	ip := net.ParseIP(c.Host)
	return c.Host == "" || c.Loopback() || ip != nil && ip.IsUnspecified()
}

// Loopback reports whether the check is of the loopback interface.
func (c *Check) Loopback() bool {
	ip := net.ParseIP(c.Host)
	return c.Host == "localhost" || ip != nil && ip.IsLoopback()
}

// Roots are where the directories of a program are, by kind.
var Roots = [directory.Kinds]string{"/run", "/var/lib", "/var/cache", "/var/log"}

// A Directory is one that superd makes for a program.
type Directory struct {
	Kind directory.Kind
	Path string
}

// DirectoriesOf returns the directories that superd makes for a program.
func (p *Program) DirectoriesOf(n Notation) (all []Directory) {
	for kind, set := range p.Directories {
		for _, name := range set.Names {
			text := p.Text(directory.Kind(kind).Key(), name, n)
			all = append(all, Directory{directory.Kind(kind), Roots[kind] + "/" + text})
		}
	}
	return all
}

// Oneshot reports whether the program is a one-shot.
func (p *Program) Oneshot() bool { return p.Type == config.TypeOneshot }

// StopBudget returns how long superd may take to stop all programs: that of the longest chain of
// programs that stop one after the other.
func (s *Source) StopBudget() time.Duration {
	budgets := map[string]time.Duration{}
	var of func(p *Program) time.Duration
	of = func(p *Program) time.Duration {
		if d, known := budgets[p.Name]; known {
			return d
		}
		own := p.StopTimeout
		if p.StopCommand != nil {
			own *= 2
		}
		longest := time.Duration(0)
		for _, other := range append(p.Requires[:len(p.Requires):len(p.Requires)], p.After...) {
			if needed := s.Named(other); needed != nil {
				longest = max(longest, of(needed))
			}
		}
		budgets[p.Name] = own + longest
		return own + longest
	}
	total := time.Duration(0)
	for _, p := range s.Programs {
		total = max(total, of(p))
	}
	return total + stopReserve
}

// stopReserve is for what superd itself does at the end.
const stopReserve = 5 * time.Second

// Services returns the programs that are up while superd runs: those that start with it and stay.
func (s *Source) Services() (names []string) {
	for _, p := range s.Programs {
		if !p.Oneshot() && p.Autostart && p.Replicas > 0 && (p.Sockets == nil || !p.Sockets.OnConnect) {
			names = append(names, p.Name)
		}
	}
	return names
}

// AllPorts returns the ports of all programs' sockets.
func (s *Source) AllPorts() (all []Port) {
	seen := map[string]bool{}
	for _, p := range s.Programs {
		for _, port := range p.Ports() {
			if key := fmt.Sprint(port.Number, port.UDP); !seen[key] {
				seen[key] = true
				all = append(all, port)
			}
		}
	}
	return all
}
