// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Scopes of cpu.gang.scope, in the kernel's order (kernel/cgroup/steer_gang.c; a test compares).
var Scopes = []string{"core", "llc", "node", "system"}

// HeadroomScopes are where a pod's headroom lands: at its own group, or at the groups above it as well.
var HeadroomScopes = []string{ScopePod, ScopeNode}

// Values of Key HeadroomScope.
const (
	ScopePod  = "pod"
	ScopeNode = "node"
)

// valueMost is far longer than any value that is meant. The kernel takes lines of a page.
const valueMost = 256

// quote shows a tenant's text in an error, cut where it is long and without control characters.
func quote(text string) string {
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	return "'" + escape(text) + "'"
}

// escape makes control characters and bad encodings visible, so that nobody writes lines of their own into a log.
func escape(text string) string {
	text = strconv.Quote(text)
	return text[1 : len(text)-1]
}

func checkText(value string) error {
	if len(value) > valueMost {
		return fmt.Errorf("%s is longer than %d characters", quote(value), valueMost)
	}
	if strings.ContainsRune(value, 0) {
		return fmt.Errorf("%s has a NUL character", quote(value))
	}
	return nil
}

func checkGang(value string) (string, error) {
	switch text := trim(value); strings.ToLower(text) {
	case "1", "yes", "true", "on":
		return "1", nil
	case "0", "no", "false", "off":
		return "0", nil
	default:
		return "", fmt.Errorf("%s is neither 0 nor 1 (nor yes, no, true, false, on, off)", quote(text))
	}
}

func checkWord(value string, known []string) (string, error) {
	word := trim(value)
	if !slices.Contains(known, word) {
		return "", fmt.Errorf("unknown scope %s%s; known: %s", quote(word), Suggestion(word, known),
			strings.Join(known, " "))
	}
	return word, nil
}

// Headroom is what the siblings leave idle: a share of the CPUs that they may use, or a number of CPUs.
// The zero value is no headroom.
type Headroom struct {
	hundredths uint // of a percent, 0 to 10000
	milliCPUs  uint // in use where hundredths is 0
}

// HeadroomAll is all CPUs, in hundredths of a percent.
const HeadroomAll = 10000

// ParseHeadroom reads a percentage ("20%", "12.50%", at most two decimals, 0 to 100) or a number of CPUs as Kubernetes
// writes it ("2", "1.5", "500m"). The kernel takes a percentage without its sign; here a number without one would be
// read as CPUs by everybody who knows Kubernetes, so the sign is required.
func ParseHeadroom(value string) (Headroom, error) {
	text := trim(value)
	wrong := fmt.Errorf("%s is neither a percentage such as 20%% or 12.50%% nor a number of CPUs such as 2 or 500m",
		quote(text))
	if err := checkText(value); err != nil {
		return Headroom{}, err
	}
	if number, percent := strings.CutSuffix(text, "%"); percent {
		hundredths, ok := decimal(strings.TrimRight(number, " "), 2)
		if !ok {
			return Headroom{}, fmt.Errorf("%w; a percentage has at most two decimals", wrong)
		}
		if hundredths > HeadroomAll {
			return Headroom{}, fmt.Errorf("%s is out of range; it goes from 0%% to 100%%", quote(text))
		}
		return Headroom{hundredths: hundredths}, nil
	}
	number, milli := strings.CutSuffix(text, "m")
	decimals := 3
	if milli {
		decimals = 0
	}
	count, ok := decimal(number, decimals)
	if !ok {
		return Headroom{}, fmt.Errorf("%w; CPUs come in thousandths at the finest", wrong)
	}
	if count > milliCPUsMost {
		return Headroom{}, fmt.Errorf("%s: no machine has that many CPUs", quote(text))
	}
	return Headroom{milliCPUs: count}, nil
}

const milliCPUsMost = 65536 * 1000

// decimal reads digits with at most so many decimals, as an integer of the last of them.
func decimal(text string, decimals int) (uint, bool) {
	whole, fraction, point := strings.Cut(text, ".")
	if whole == "" || len(whole) > 12 || len(fraction) > decimals || (point && fraction == "") {
		return 0, false
	}
	digits := whole + fraction + strings.Repeat("0", decimals-len(fraction))
	if strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 63)
	return uint(number), err == nil
}

// Zero tells whether nothing is asked for.
func (h Headroom) Zero() bool { return h == Headroom{} }

// Percent returns the headroom in hundredths of a percent of so many CPUs. Of a part of a hundredth a whole one is
// made: a protection is no less than what was asked for.
func (h Headroom) Percent(cpus int) (uint, error) {
	if h.milliCPUs == 0 {
		return h.hundredths, nil
	}
	if cpus < 1 {
		return 0, fmt.Errorf("%s: it is not known how many CPUs the others may use", h)
	}
	whole := uint(cpus) * 1000
	if h.milliCPUs > whole {
		return 0, fmt.Errorf("%s are more than the %d CPUs that the others may use (a percentage is written with its "+
			"sign, as in 20%%)", h, cpus)
	}
	return (h.milliCPUs*HeadroomAll + whole - 1) / whole, nil
}

// String writes it as it would be read.
func (h Headroom) String() string {
	switch {
	case h.milliCPUs == 0:
		return FormatPercent(h.hundredths) + "%"
	case h.milliCPUs%1000 == 0:
		return fmt.Sprintf("%d CPUs", h.milliCPUs/1000)
	default:
		return fmt.Sprintf("%dm CPUs", h.milliCPUs)
	}
}

// FormatPercent writes hundredths of a percent as cpu.headroom does.
func FormatPercent(hundredths uint) string {
	return fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100)
}

// ParsePercent reads what cpu.headroom shows.
func ParsePercent(text string) (uint, error) {
	hundredths, ok := decimal(trim(text), 2)
	if !ok || hundredths > HeadroomAll {
		return 0, fmt.Errorf("%s is not a percentage such as 12.50", quote(text))
	}
	return hundredths, nil
}
