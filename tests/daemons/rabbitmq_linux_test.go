package daemons

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestRabbitMQ: messages that it has confirmed are kept. It has no reload.
func TestRabbitMQ(t *testing.T) {
	m := newMachine(t, "rabbitmq", "rabbitmq-server", "python3-amqp")
	if m.lacks(unix.CAP_SYS_RESOURCE) {
		m.substitute("limits.nofile   = 65536", "limits.nofile   = 4096")
		m.substitute("oom_score_adj   = -500\n", "")
	}
	// The name of the host may have no address.
	m.write("/etc/rabbitmq/rabbitmq-env.conf", "NODENAME=rabbit@localhost\n")
	m.boot()
	client := func(code string) (string, error) {
		out, err := m.command("/usr/bin/python3", "-c", `
import amqp
with amqp.Connection("127.0.0.1:5672", confirm_publish=True) as connection:
	channel = connection.channel()
	queue = channel.queue_declare("queue", durable=True, auto_delete=False)
	`+code).CombinedOutput()
		return string(out), err
	}
	request := func() error {
		got, err := client(`print("served")`)
		return ok(got, err, "served\n")
	}
	publish := `
	for n in range(100):
		channel.basic_publish(amqp.Message(f"message {n}", delivery_mode=2), routing_key="queue")
`
	if got, err := client(publish); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	m.refusesRestart("/etc/rabbitmq/rabbitmq.conf", "heartbeat = thirty\n", `"thirty" cannot be converted to a(n) integer`)
	m.run("mkdir", "-p", "/etc/rabbitmq/conf.d")
	m.refusesRestart("/etc/rabbitmq/conf.d/10-mine.conf", "heartbeat = forty\n", `"forty" cannot be converted to a(n) integer`)
	m.upgrades(request)
	epmd := m.Status("epmd").Pid
	m.stops()
	if st := m.Status("epmd"); st.State != "running" || st.Pid != epmd {
		t.Errorf("%v, want process %d", st, epmd)
	}
	m.MustCtl("start", m.name)
	if got, err := client(`print(queue.message_count, channel.basic_get("queue").body)`); got != "100 message 0\n" {
		t.Errorf("the queue has %q, %v", got, err)
	}
	if as := userOf(t, m.pid()); as != "rabbitmq" {
		t.Errorf("it runs as %s", as)
	}
}
