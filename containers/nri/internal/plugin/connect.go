// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

// Name is that of the plugin, in errors and towards the runtime.
const Name = "cgroup-steer"

// Connection says how the runtime is reached.
type Connection struct {
	Socket  string // of the runtime's NRI service; not used where the runtime starts the plugin
	Name    string
	Index   string // two digits: the place in the order of plugins
	Started bool   // the runtime started the plugin, and has given it a connection
	// How long to wait before connecting anew, at first and at most.
	Backoff, BackoffMost time.Duration
}

// Serve keeps a connection to the runtime until the context ends: where it breaks, or cannot be made, it is made anew
// after a while. A value from renew has it made anew at once, so that the runtime tells of all pods again. Where the
// runtime started the plugin, the end of the connection is the end of the plugin.
func (p *Plugin) Serve(ctx context.Context, how Connection, renew <-chan struct{}) error {
	wait := how.Backoff
	for ctx.Err() == nil {
		begin := time.Now()
		renewed, err := p.connect(ctx, how, renew)
		p.synced.Store(false)
		p.metrics.SetConnected(false)
		switch {
		case ctx.Err() != nil:
			return nil
		case how.Started && !renewed:
			return err
		case renewed:
			continue
		case time.Since(begin) > how.BackoffMost: // It was a good one.
			wait = how.Backoff
		}
		p.log.Warn("not connected", "socket", how.Socket, "error", err, "again", wait.String())
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, how.BackoffMost)
	}
	return nil
}

// closeTime is how long a closed stub has to return.
const closeTime = time.Second

func (p *Plugin) connect(ctx context.Context, how Connection, renew <-chan struct{}) (renewed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := make(chan struct{}, 1)
	options := []stub.Option{
		stub.WithLogger(logger{p.log}),
		stub.WithOnClose(func() {
			select {
			case closed <- struct{}{}:
			default:
			}
		}),
		// A slow answer is no reason to lose the plugin, and with it the policy of all that comes after.
		stub.WithFailurePolicy(&api.FailurePolicy{KeepConnected: true}),
	}
	if !how.Started { // Otherwise the runtime has said all that.
		options = append(options, stub.WithSocketPath(how.Socket), stub.WithPluginName(how.Name), stub.WithPluginIdx(how.Index))
	}
	connection, err := stub.New(p, options...)
	if err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- connection.Run(ctx) }()
	select {
	case err = <-ended:
		return false, err
	case <-renew:
		renewed = true
	case <-ctx.Done():
	case <-closed:
		err = fmt.Errorf("the runtime closed the connection")
	}
	cancel()
	// The stub waits for ever for a runtime that goes away between registration and configuration.
	select {
	case <-ended:
	case <-time.After(closeTime):
		p.log.Debug("a closed connection was left behind")
	}
	return renewed, err
}

// logger hands what the stub says to ours. It says little that is worth more than debugging.
type logger struct{ log *slog.Logger }

func (l logger) say(ctx context.Context, level slog.Level, format string, arguments []any) {
	l.log.Log(ctx, level, "stub: "+fmt.Sprintf(format, arguments...))
}

func (l logger) Debugf(ctx context.Context, format string, arguments ...any) {
	l.say(ctx, slog.LevelDebug, format, arguments)
}
func (l logger) Infof(ctx context.Context, format string, arguments ...any) {
	l.say(ctx, slog.LevelDebug, format, arguments)
}
func (l logger) Warnf(ctx context.Context, format string, arguments ...any) {
	l.say(ctx, slog.LevelWarn, format, arguments)
}
func (l logger) Errorf(ctx context.Context, format string, arguments ...any) {
	l.say(ctx, slog.LevelWarn, format, arguments)
}
