// SPDX-License-Identifier: Apache-2.0

// Package daemon puts the parts of the plugin together, and runs them.
package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"cgroup-steer/nri/internal/cgroup"
	"cgroup-steer/nri/internal/config"
	"cgroup-steer/nri/internal/plugin"
	"cgroup-steer/nri/internal/policy"
)

// Settings are the command line.
type Settings struct {
	Config, CgroupRoot, Socket, Name, Index, Listen, Features, Version string

	Started bool // by the runtime, which has given the plugin a connection
	Resync  time.Duration
	// How often the configuration file is read. A ConfigMap takes up to a minute to arrive anyway.
	ConfigInterval time.Duration
}

// DefaultConfigInterval is that of the command.
const DefaultConfigInterval = 5 * time.Second

const (
	// stuckTime is how long the cgroup tree may take before the plugin counts as not healthy.
	stuckTime = 30 * time.Second
)

// Run runs the plugin until the context ends, or until the runtime that started it goes away.
func Run(ctx context.Context, settings Settings, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loaded := config.Default()
	var text []byte
	if settings.Config != "" {
		var err error
		if loaded, text, err = config.Load(settings.Config); err != nil {
			return err
		}
	}
	tree, err := cgroup.Open(settings.CgroupRoot)
	if err != nil {
		return err
	}
	defer func() { _ = tree.Close() }()
	if !tree.IsCgroup2() {
		log.Warn("this is no cgroup2 file system; the policies' files will be missing", "path", settings.CgroupRoot)
	}
	metrics := plugin.NewMetrics(tree, settings.Version)
	keeper := cgroup.NewKeeper(tree, log)
	nri := plugin.New(loaded, settings.Config != "", tree, keeper, metrics, log)
	renew := make(chan struct{}, 1)

	if settings.Listen != "" {
		server, err := serve(settings.Listen, nri, keeper, metrics)
		if err != nil {
			return err
		}
		defer func() { _ = server.Close() }()
	}
	go keeper.Run(ctx, settings.Resync)
	if settings.Features != "" {
		go writeFeatures(ctx, settings.Features, keeper, log)
	}
	if settings.Config != "" {
		go watchConfig(ctx, settings.Config, text, settings.ConfigInterval, log, func(changed config.Config, err error) {
			metrics.SetConfigValid(err == nil)
			if err != nil {
				log.Error("the configuration is not valid; the last valid one holds", "error", err)
				return
			}
			nri.SetConfig(changed)
			log.Info("the configuration has changed")
			// The runtime tells of all pods again, and all are judged anew.
			select {
			case renew <- struct{}{}:
			default:
			}
		})
	}
	log.Info("started", "version", settings.Version, "domain", loaded.Domain)
	return nri.Serve(ctx, plugin.Connection{
		Socket: settings.Socket, Name: settings.Name, Index: settings.Index, Started: settings.Started,
		Backoff: 100 * time.Millisecond, BackoffMost: 5 * time.Second,
	}, renew)
}

// watchConfig reads the file again and again, since a ConfigMap is changed by way of symbolic links, and calls back when
// it says something else.
func watchConfig(ctx context.Context, file string, text []byte, interval time.Duration, log *slog.Logger,
	changed func(config.Config, error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		loaded, next, err := config.Load(file)
		if next == nil { // It cannot be read; perhaps it is being replaced.
			log.Warn("the configuration cannot be read; the last one holds", "error", err)
			continue
		}
		if !bytes.Equal(text, next) {
			text = next
			changed(loaded, err)
		}
	}
}

// serve answers Prometheus and the kubelet. Healthy: the plugin can answer the runtime. Ready: it is connected.
func serve(address string, nri *plugin.Plugin, keeper *cgroup.Keeper, metrics *plugin.Metrics) (*http.Server, error) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, keeper.Stuck() < stuckTime, "the cgroup tree does not answer")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, nri.Synced(), "not connected to the runtime")
	})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return server, nil
}

func answer(w http.ResponseWriter, good bool, otherwise string) {
	if !good {
		http.Error(w, otherwise, http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

const (
	featureFile     = "cgroup-steer"
	featureInterval = 30 * time.Second
)

// writeFeatures keeps a file for node-feature-discovery, which makes labels of its lines, such as
// feature.node.kubernetes.io/cgroup-steer.hint=true.
func writeFeatures(ctx context.Context, directory string, keeper *cgroup.Keeper, log *slog.Logger) {
	for last := ""; ; {
		if present := keeper.Present(); present != nil {
			if text := features(present); text != last {
				if err := replace(directory, featureFile, text); err != nil {
					log.Warn("features not written", "error", err)
				} else {
					last = text
				}
			}
		}
		interval := featureInterval
		if last == "" {
			interval = time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

func features(present cgroup.Present) string {
	var text strings.Builder
	for _, key := range []policy.Key{policy.Hint, policy.Gang, policy.HeadroomKey} {
		fmt.Fprintf(&text, "cgroup-steer.%s=%t\n", key, present[key])
	}
	return text.String()
}

// replace writes a file so that nobody reads half of it. node-feature-discovery passes over names with a dot.
func replace(directory, name, text string) error {
	temporary := filepath.Join(directory, "."+name)
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(directory, name))
}
