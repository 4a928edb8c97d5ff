package daemons

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
)

// script asks php-fpm, which has this socket, for the output of a script, by FastCGI.
func (m *machine) script(socket, path string) (string, error) {
	c, err := m.client("unix", m.path(socket))
	if err != nil {
		return "", err
	}
	defer c.Close()
	var request, params bytes.Buffer
	record := func(kind byte, content string) {
		request.Write([]byte{1, kind, 0, 1, 0, byte(len(content)), 0, 0})
		request.WriteString(content)
	}
	for _, p := range [][2]string{{"SCRIPT_FILENAME", path}, {"REQUEST_METHOD", "GET"}} {
		params.Write([]byte{byte(len(p[0])), byte(len(p[1]))})
		params.WriteString(p[0] + p[1])
	}
	record(1, "\x00\x01\x00\x00\x00\x00\x00\x00") // FCGI_BEGIN_REQUEST, as FCGI_RESPONDER
	record(4, params.String())                    // FCGI_PARAMS
	record(4, "")
	record(5, "") // FCGI_STDIN
	if _, err := c.Write(request.Bytes()); err != nil {
		return "", err
	}
	for output := ""; ; {
		var head struct {
			Version, Kind byte
			ID, Length    uint16
			Padding, _    byte
		}
		if err := binary.Read(c.lines, binary.BigEndian, &head); err != nil {
			return output, err
		}
		content := make([]byte, int(head.Length)+int(head.Padding))
		if _, err := io.ReadFull(c.lines, content); err != nil {
			return output, err
		}
		if head.Kind == 3 { // FCGI_END_REQUEST
			return output, nil
		}
		output += string(content[:head.Length])
	}
}

func TestPHPFPM(t *testing.T) {
	m := newMachine(t, "php-fpm", "php8.2-fpm")
	m.run("mkdir", "-p", "/var/www")
	m.write("/var/www/answer.php", `<?php echo "answer ", ini_get("user_agent");`)
	m.write("/var/www/slow.php", `<?php file_get_contents("http://127.0.0.1:8000/slow"); echo "slow answer";`)
	received, release := m.backend("127.0.0.1:8000")
	conf := m.read("/etc/php/8.2/fpm/php-fpm.conf")
	m.write("/etc/php/8.2/fpm/php-fpm.conf", conf+"[global]\nprocess_control_timeout = 20s\n")
	m.boot()
	served := func() error {
		got, err := m.script("/run/php/php-fpm.sock", "/var/www/answer.php")
		return ok(got, err, "answer")
	}
	pool := m.read("/etc/php/8.2/fpm/pool.d/www.conf")
	m.reloads(served, func() { m.write("/etc/php/8.2/fpm/pool.d/www.conf", pool+"php_value[user_agent] = two\n") },
		func() bool {
			got, err := m.script("/run/php/php-fpm.sock", "/var/www/answer.php")
			return ok(got, err, "answer two") == nil
		})
	m.refuses("/etc/php/8.2/fpm/pool.d/www.conf", pool+"bogus = 1\n", "unknown entry 'bogus'")
	m.upgrades(served)
	m.answers(func() error {
		got, err := m.script("/run/php/php-fpm.sock", "/var/www/slow.php")
		return ok(got, err, "slow answer")
	}, received, release)
}
