// SPDX-License-Identifier: Apache-2.0

// cgroup-steer-nri is an NRI plugin that gives containers and pods the CPU policies which their annotations ask for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"

	"cgroup-steer/nri/internal/config"
	"cgroup-steer/nri/internal/daemon"
	"cgroup-steer/nri/internal/plugin"
)

// version is set by the build.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, &usageError{}):
		os.Exit(2) // The flag package has said what is wrong.
	case err != nil:
		fmt.Fprintf(os.Stderr, "cgroup-steer-nri: %v\n", err)
		os.Exit(1)
	}
}

type usageError struct{ error }

func run(ctx context.Context, arguments []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("cgroup-steer-nri", flag.ContinueOnError)
	flags.SetOutput(log)
	settings := daemon.Settings{Version: version, Started: os.Getenv(api.PluginSocketEnvVar) != "",
		ConfigInterval: daemon.DefaultConfigInterval}
	flags.StringVar(&settings.Config, "config", "", "configuration `file`; read again when it changes (default: none, so "+
		"what the runtime hands over, or the defaults)")
	flags.StringVar(&settings.CgroupRoot, "cgroup-root", "/sys/fs/cgroup", "where the cgroup2 file system is mounted")
	flags.StringVar(&settings.Socket, "socket", api.DefaultSocketPath, "the runtime's NRI socket")
	flags.StringVar(&settings.Name, "name", plugin.Name, "name of the plugin towards the runtime")
	flags.StringVar(&settings.Index, "index", "50", "place in the order of plugins, two digits")
	flags.StringVar(&settings.Listen, "listen", "", "`address` for /metrics, /healthz and /readyz, such as :9753 (default: none)")
	flags.StringVar(&settings.Features, "features-dir", "",
		"node-feature-discovery's features.d, to write a file that says what the kernel has (default: none)")
	flags.DurationVar(&settings.Resync, "resync", 30*time.Second, "how often headrooms are compared with what they should be")
	level := flags.String("log-level", "info", "debug, info, warn or error")
	format := flags.String("log-format", "text", "text or json")
	check := flags.Bool("check-config", false, "check the configuration file, and exit")
	showVersion := flags.Bool("version", false, "print the version, and exit")
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument '%s'; see --help", flags.Arg(0))
	}
	if *showVersion {
		_, err := fmt.Fprintln(out, "cgroup-steer-nri", version)
		return err
	}
	if *check {
		return checkConfig(settings.Config, out)
	}
	handler, err := newHandler(*format, *level, log)
	if err != nil {
		return err
	}
	if settings.Resync < time.Second {
		return fmt.Errorf("--resync %s is less than 1s", settings.Resync)
	}
	if err := api.CheckPluginIndex(settings.Index); err != nil {
		return fmt.Errorf("--index '%s' is not two digits such as 50", settings.Index)
	}
	return daemon.Run(ctx, settings, slog.New(handler))
}

func checkConfig(file string, out io.Writer) error {
	if file == "" {
		return fmt.Errorf("--check-config needs --config FILE")
	}
	if _, _, err := config.Load(file); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s: valid\n", file)
	return err
}

func newHandler(format, level string, log io.Writer) (slog.Handler, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level: unknown '%s'; known: debug info warn error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "json":
		return slog.NewJSONHandler(log, options), nil
	case "text":
		return slog.NewTextHandler(log, options), nil
	default:
		return nil, fmt.Errorf("--log-format: unknown '%s'; known: text json", format)
	}
}
