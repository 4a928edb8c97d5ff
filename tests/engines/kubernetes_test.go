package engines

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// An apiServer is an API server of Kubernetes with an etcd.
type apiServer struct {
	url    string
	client *http.Client
}

// token is that of the only user.
const token = "test"

// startAPIServer starts both. They end with the test.
func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	dir := t.TempDir()
	start := func(name string, args ...string) {
		log, err := os.Create(filepath.Join(dir, filepath.Base(name)+".log"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(name, args...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = log.Close()
			if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
				t.Logf("%s ends with\n%s", name, text[max(0, len(text)-3000):])
			}
		})
	}
	client, peer, port := freePort(t), freePort(t), freePort(t)
	etcd := "http://127.0.0.1:" + client
	start("etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcd,
		"--advertise-client-urls", etcd, "--listen-peer-urls", "http://127.0.0.1:"+peer,
		"--initial-advertise-peer-urls", "http://127.0.0.1:"+peer, "--initial-cluster", "default=http://127.0.0.1:"+peer)
	key := filepath.Join(dir, "key.pem")
	writeKey(t, key)
	tokens := filepath.Join(dir, "tokens")
	write(t, tokens, token+",admin,1,system:masters\n")
	start(filepath.Join(*engines, "kube-apiserver"), "--etcd-servers", etcd, "--secure-port", port,
		"--bind-address", "127.0.0.1", "--cert-dir", filepath.Join(dir, "certs"), "--token-auth-file", tokens,
		"--service-account-issuer", "https://127.0.0.1", "--service-account-key-file", key,
		"--service-account-signing-key-file", key, "--authorization-mode", "AlwaysAllow",
		"--disable-admission-plugins", "ServiceAccount", "--service-cluster-ip-range", "10.0.0.0/24")
	s := &apiServer{url: "https://127.0.0.1:" + port, client: &http.Client{
		Timeout: 10 * time.Second,
		// The certificate is one that the server makes for itself, on the loopback interface
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}}
	s.wait(t)
	return s
}

// logVersions logs the versions of both. That of the server is in the name of its file: it is not
// stamped.
func logVersions(t *testing.T) {
	t.Helper()
	server, err := os.Readlink(filepath.Join(*engines, "kube-apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := exec.CommandContext(t.Context(), "etcd", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(etcd), "\n")
	t.Log(server, first)
}

// wait waits until the server and the namespace that the manifests are for are there.
func (s *apiServer) wait(t *testing.T) {
	t.Helper()
	const most = 2 * time.Minute
	for deadline := time.Now().Add(most); ; time.Sleep(200 * time.Millisecond) {
		ready, _ := s.do("GET", "/readyz", "")
		namespace, _ := s.do("GET", "/api/v1/namespaces/default", "")
		if ready == http.StatusOK && namespace == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the API server is not ready within %v: %d %d", most, ready, namespace)
		}
	}
}

// do sends a request, and returns the status and the answer.
func (s *apiServer) do(method, path, body string) (status int, answer string) {
	request, err := http.NewRequest(method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		request.Header.Set("Content-Type", "application/yaml")
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// plurals are the last parts of the paths of kinds.
var plurals = map[string]string{"Deployment": "deployments", "Job": "jobs", "CronJob": "cronjobs",
	"Service": "services", "ConfigMap": "configmaps"}

// dryRun asks the server whether it would take a manifest.
func (s *apiServer) dryRun(manifest string) (status int, answer string) {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(manifest), &head); err != nil {
		return 0, err.Error()
	}
	group := "/apis/"
	if !strings.Contains(head.APIVersion, "/") {
		group = "/api/"
	}
	return s.do("POST", group+head.APIVersion+"/namespaces/default/"+plurals[head.Kind]+
		"?dryRun=All&fieldValidation=Strict", manifest)
}

// TestKubernetesTakes: an API server takes every manifest, with strict validation of fields and in
// a dry run, and refuses wrong ones.
func TestKubernetesTakes(t *testing.T) {
	if *engines == "" {
		t.Skip("needs -engines: make test-engines")
	}
	s := startAPIServer(t)
	logVersions(t)
	taken, refused := 0, 0
	for _, e := range exports(t, "kubernetes") {
		for _, document := range strings.Split(e.Files[0].Text, "\n---\n") {
			if status, answer := s.dryRun(document); status != http.StatusCreated {
				t.Errorf("%s: %d %s\n%s", e.name, status, answer, document)
				continue
			}
			taken++
			if e.name != "shop" {
				continue
			}
			for _, wrong := range [][2]string{
				{"\nspec:\n", "\nspec:\n  replikas: 3\n"}, {"image: \"registry.example/shop:1\"", "image: 5"},
			} {
				broken := strings.Replace(document, wrong[0], wrong[1], 1)
				if broken == document {
					continue
				}
				if status, answer := s.dryRun(broken); status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
					t.Errorf("it does not refuse %q: %d %s", wrong[1], status, answer)
				}
				refused++
			}
		}
	}
	const leastRefused = 4 // each kind of mistake in several manifests
	if refused < leastRefused {
		t.Errorf("only %d wrong manifests were tried", refused)
	}
	t.Logf("%d manifests are taken, %d wrong ones refused", taken, refused)
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
}

func writeKey(t *testing.T, path string) {
	t.Helper()
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	write(t, path, string(pem.EncodeToMemory(block)))
}
