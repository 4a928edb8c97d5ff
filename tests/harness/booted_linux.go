package harness

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"testing"
)

// asBooted makes the file systems of a machine in the directory $1, and waits for its end. /etc and
// /var are those of the machine outside, without what is written to them here. /run is empty.
const asBooted = `
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=0755 machine "$1"
cd "$1"
for dir in etc var; do
	mkdir $dir $dir.work
	mount -t overlay overlay -o lowerdir=/$dir,upperdir=$dir,workdir=$dir.work /$dir
done
mkdir -p dev/pts
mkdir -m 1777 dev/shm
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/ptmx dev
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount --bind /dev/pts dev/pts
mount --rbind dev /dev
mount -t tmpfs -o mode=0755 run /run
mkdir -m 1777 /run/lock
ip link set lo up
echo booted
exec cat
`

// Booted makes namespaces with /etc, /var, /run, /dev and a network of their own, and returns a
// process in them. dir is an empty directory for what is written there. They end with the test.
func Booted(t testing.TB, dir string) (holder int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "sh", "-c", asBooted, "sh", dir)
	in, errIn := cmd.StdinPipe() // at the end of the test cat reads its end
	out, errOut := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "booted\n" {
		t.Fatalf("no machine could be made: %q, %v", line, err)
	}
	return cmd.Process.Pid
}
