package daemons

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"testing"
)

// publish publishes a message by MQTT 3.1.1 with QoS 1, and waits until it is confirmed.
func (m *machine) publish(topic, text string) error {
	c, err := m.client("tcp", "127.0.0.1:1883")
	if err != nil {
		return err
	}
	defer c.Close()
	for _, step := range []struct{ packet, answer string }{
		{"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00", "\x20\x02\x00\x00"}, // CONNECT, CONNACK
		{"\x32" + string(rune(4+len(topic)+len(text))) + "\x00" + string(rune(len(topic))) + topic + "\x00\x01" + text,
			"\x40\x02\x00\x01"}, // PUBLISH, PUBACK
	} {
		got := make([]byte, len(step.answer))
		if _, err := io.WriteString(c, step.packet); err != nil {
			return err
		}
		_, err := io.ReadFull(c.lines, got)
		if err := ok(string(got), err, step.answer); err != nil {
			return err
		}
	}
	return nil
}

// TestMosquitto: a subscriber gets every message that was confirmed before a stop.
func TestMosquitto(t *testing.T) {
	m := newMachine(t, "mosquitto", "mosquitto")
	m.write("/etc/mosquitto/conf.d/test.conf", "listener 1883 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
	m.boot()
	if as := userOf(t, m.pid()); as != "mosquitto" {
		t.Errorf("it runs as %s", as)
	}
	publish := func() error { return m.publish("load", "text") }
	conf := m.read("/etc/mosquitto/mosquitto.conf")
	m.reloads(publish,
		func() { m.write("/etc/mosquitto/mosquitto.conf", conf+"log_type all\n") },
		func() bool { return strings.Contains(m.read("/var/log/mosquitto/mosquitto.log"), "Sending PUBACK") })
	m.refuses("/etc/mosquitto/mosquitto.conf", conf+"bogus 1\n", `Unknown configuration variable "bogus"`)
	m.upgrades(publish)
	m.healthy()

	subscribe := []string{"mosquitto_sub", "-c", "-i", "subscriber", "-q", "1", "-t", "queue"}
	m.run(append(subscribe, "-E")...)
	confirmed := m.writes(func(n int) error { return m.publish("queue", strconv.Itoa(n)) }, m.stops)
	m.MustCtl("start", "mosquitto")
	got := bufio.NewScanner(strings.NewReader(m.run(append(subscribe, "-C", strconv.Itoa(confirmed), "-W", "60")...)))
	for n := range confirmed {
		if got.Scan(); got.Text() != strconv.Itoa(n) {
			t.Fatalf("message %d is %q", n, got.Text())
		}
	}
}
