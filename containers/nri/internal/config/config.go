// SPDX-License-Identifier: Apache-2.0

// Package config reads the plugin's configuration: a YAML file, or what the runtime hands to the plugin.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"cgroup-steer/nri/internal/policy"
)

// What to do: OnInvalid and OnMissing are one of these.
const (
	Reject = "reject"
	Ignore = "ignore"
)

// DefaultDomain ends in a name that is never given to anybody: "internal" is reserved for private use.
const DefaultDomain = "cgroup-steer.internal"

// Config is the file. What is not there has its default.
type Config struct {
	Domain    string           `yaml:"domain"`
	OnInvalid string           `yaml:"onInvalid"`
	OnMissing string           `yaml:"onMissing"`
	Defaults  []policy.Default `yaml:"defaults"`
	Allow     []policy.Allow   `yaml:"allow"`
}

// Default lets everybody use what acts on the own tasks only. A headroom holds others back, so nobody has it unasked.
func Default() Config {
	return Config{
		Domain:    DefaultDomain,
		OnInvalid: Reject,
		OnMissing: Ignore,
		Allow:     []policy.Allow{{Keys: []policy.Key{policy.Hint, policy.Gang, policy.GangScope}}},
	}
}

// Parse reads a configuration and checks it as a whole. The error says where it is wrong and what would be right.
func Parse(text []byte) (Config, error) {
	result := Default()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&result); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, explain(err)
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return Config{}, fmt.Errorf("there is more than one document; the configuration is a single one")
	}
	return result, result.check()
}

// Rules returns what pods are judged by.
func (c Config) Rules() policy.Rules {
	return policy.Rules{Domain: c.Domain, Defaults: c.Defaults, Allow: c.Allow}
}

// A DNS name, as the prefix of an annotation has to be one. The longest key before it is "headroom.scope.".
var domainName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)

// A name without a slash has at most 63 characters.
const domainMost = 63 - len("headroom.scope.")

var unknownField = regexp.MustCompile(`field (\S+) not found in type config\.Config`)

// explain adds which key was meant.
func explain(err error) error {
	if found := unknownField.FindStringSubmatch(err.Error()); found != nil {
		known := []string{"domain", "onInvalid", "onMissing", "defaults", "allow"}
		return fmt.Errorf("unknown key '%s'%s; known: %s", found[1], policy.Suggestion(found[1], known),
			strings.Join(known, " "))
	}
	return err
}

func (c Config) check() error {
	if !domainName.MatchString(c.Domain) || len(c.Domain) > domainMost {
		return fmt.Errorf("domain: '%s' is not a DNS name of at most %d characters with a dot in it, such as %s", c.Domain,
			domainMost, DefaultDomain)
	}
	for _, action := range []struct{ key, value string }{{"onInvalid", c.OnInvalid}, {"onMissing", c.OnMissing}} {
		if known := []string{Reject, Ignore}; !slices.Contains(known, action.value) {
			return fmt.Errorf("%s: unknown '%s'%s; known: %s", action.key, action.value,
				policy.Suggestion(action.value, known), strings.Join(known, " "))
		}
	}
	for i := range c.Defaults {
		if err := checkDefault(&c.Defaults[i]); err != nil {
			return fmt.Errorf("defaults, rule %d: %w", i+1, err)
		}
	}
	for i, rule := range c.Allow {
		if err := checkAllow(rule); err != nil {
			return fmt.Errorf("allow, rule %d: %w", i+1, err)
		}
	}
	return nil
}

func checkSelector(selector policy.Selector) error {
	for _, pattern := range selector.Namespaces {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("namespaces: '%s' is neither a name nor a pattern such as team-*", pattern)
		}
	}
	return nil
}

// checkKey finds a key; other names that are possible there are for the error.
func checkKey(name string, others ...string) (policy.Key, error) {
	if slices.Contains(policy.Keys, policy.Key(name)) {
		return policy.Key(name), nil
	}
	var known []string
	for _, key := range policy.Keys {
		known = append(known, string(key))
	}
	known = append(known, others...)
	return "", fmt.Errorf("unknown key '%s'%s; known: %s", name, policy.Suggestion(name, known), strings.Join(known, " "))
}

func checkDefault(rule *policy.Default) error {
	if len(rule.Texts) == 0 {
		return fmt.Errorf("it sets nothing; add for example 'hint: background'")
	}
	rule.Values = policy.Values{}
	for _, name := range slices.Sorted(maps.Keys(rule.Texts)) {
		key, err := checkKey(name, "namespaces", "labels")
		if err != nil {
			return err
		}
		if rule.Values[key], err = key.Check(fmt.Sprint(rule.Texts[name])); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return checkSelector(rule.Selector)
}

func checkAllow(rule policy.Allow) error {
	if len(rule.Keys) == 0 {
		return fmt.Errorf("it allows no key; add for example 'keys: [hint]'")
	}
	for _, key := range rule.Keys {
		if _, err := checkKey(string(key)); err != nil {
			return err
		}
	}
	if rule.MaxHeadroom != "" {
		if _, err := policy.ParseHeadroom(rule.MaxHeadroom); err != nil {
			return fmt.Errorf("maxHeadroom: %w", err)
		}
	}
	for _, scope := range rule.Scopes {
		if _, err := policy.HeadroomScope.Check(scope); err != nil {
			return fmt.Errorf("scopes: %w", err)
		}
	}
	if !slices.Contains(rule.Keys, policy.HeadroomKey) && (rule.MaxHeadroom != "" || rule.Scopes != nil) {
		return fmt.Errorf("maxHeadroom and scopes are for 'headroom', which is not among its keys")
	}
	return checkSelector(rule.Selector)
}

// Load reads a file; the error names it. The text is returned to tell later whether it has changed.
func Load(file string) (Config, []byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Config{}, nil, err
	}
	result, err := Parse(text)
	if err != nil {
		return Config{}, text, fmt.Errorf("%s: %w", file, err)
	}
	return result, text, nil
}
