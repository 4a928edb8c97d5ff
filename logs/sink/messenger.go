package sink

import "superd/logs/frame"

type messenger struct{ transport *transport }

// Put implements [Sink].
func (m *messenger) Put(dropRecord *[]byte, records []byte, stop <-chan struct{}) (written int, err error) {
	if *dropRecord != nil {
		frame.Messages(*dropRecord, func(message []byte, _ int) bool {
			err = m.transport.send(message, stop)
			return err == nil
		})
		if err != nil {
			return 0, err
		}
		*dropRecord = nil
	}
	frame.Messages(records, func(message []byte, end int) bool {
		if err = m.transport.send(message, stop); err == nil {
			written = end
		}
		return err == nil
	})
	return written, err
}

// Close implements [Sink].
func (m *messenger) Close() { m.transport.release() }
