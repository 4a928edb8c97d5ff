package metrics

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"superd/control"
)

// A Source returns what metrics are made of, as [control.Client.Counters] does.
type Source func(ctx context.Context) (control.Counters, error)

// answerTimeout is how long a scrape waits for superd. Prometheus waits 10 s for the scrape.
const answerTimeout = 5 * time.Second

// Handler returns the handler of /metrics. It answers in the classic text format or in OpenMetrics,
// as the header Accept says. Without an answer of superd it reports superd_up as 0.
func Handler(source Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gather := func() ([]*dto.MetricFamily, error) {
			ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
			defer cancel()
			c, err := source(ctx)
			if err != nil {
				return Families(nil), nil //nolint:nilerr // superd_up tells it
			}
			return Families(&c), nil
		}
		promhttp.HandlerFor(prometheus.GathererFunc(gather), promhttp.HandlerOpts{
			EnableOpenMetrics:  true,
			DisableCompression: true, // takes longer than the rest, and the way is short
		}).ServeHTTP(w, r)
	})
}

// Write writes the metrics of c, or of a superd that does not answer for nil.
func Write(w io.Writer, c *control.Counters, openMetrics bool) error {
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	if openMetrics {
		format = expfmt.NewFormat(expfmt.TypeOpenMetrics)
	}
	encoder := expfmt.NewEncoder(w, format)
	for _, f := range Families(c) {
		if err := encoder.Encode(f); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	if closer, ok := encoder.(expfmt.Closer); ok {
		return closer.Close()
	}
	return nil
}

// WriteFile calls write with a new file, which then replaces the one at path: a reader sees the old
// one or the new one. Its name does not match *.prom before, which node_exporter reads.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	defer func() {
		if err != nil {
			temporary.Close()
			os.Remove(temporary.Name())
		}
	}()
	if err := write(temporary); err != nil {
		return err
	}
	if err := temporary.Chmod(0o644); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	if err := temporary.Close(); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}
