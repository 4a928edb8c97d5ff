package child

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// escape leaves a grandchild that keeps stdout open but is in neither the session nor the process
// group of the program.
func escape(args []string) error {
	cmd := exec.Command(os.Args[0], "survivor", args[0])
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

func survivor(args []string) error {
	fmt.Println("survivor ready")
	if err := Pass(args[0]); err != nil {
		return err
	}
	fmt.Println("late")
	return live(syscall.SIGTERM)
}

func forks(args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for range count {
		if err := exec.Command("sleep", "infinity").Start(); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	return live(syscall.SIGTERM)
}
