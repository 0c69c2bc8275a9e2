// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestErrorsNameTheKeyAndWhatIsRight(t *testing.T) {
	for text, part := range map[string]string{
		"alow: []":                                      "unknown key 'alow' (did you mean 'allow'?); known: domain onInvalid onMissing defaults allow",
		"domain: Nodots":                                "domain: 'Nodots' is not a DNS name",
		"domain: a..b":                                  "is not a DNS name",
		"domain: x." + strings.Repeat("y", 60):          "at most 48 characters",
		"onInvalid: rejct":                              "onInvalid: unknown 'rejct' (did you mean 'reject'?); known: reject ignore",
		"onMissing: no":                                 "onMissing: unknown 'no'",
		"defaults:\n- hint: pakc":                       "defaults, rule 1: hint: unknown word 'pakc' (did you mean 'pack'?)",
		"defaults:\n- hint: pack\n- gng: 1":             "defaults, rule 2: unknown key 'gng' (did you mean 'gang'?)",
		"defaults:\n- namespace: [x]":                   "did you mean 'namespaces'?",
		"defaults:\n- namespaces: [x]":                  "it sets nothing",
		"allow:\n- keys: [hnt]":                         "allow, rule 1: unknown key 'hnt' (did you mean 'hint'?)",
		"allow:\n- namespaces: [x]":                     "it allows no key",
		"allow:\n- keys: [headroom]\n  maxHeadroom: 20": "",
		"allow:\n- keys: [headroom]\n  maxHeadroom: x":  "maxHeadroom: 'x' is neither a percentage",
		"allow:\n- keys: [headroom]\n  scopes: [pods]":  "scopes: unknown scope 'pods' (did you mean 'pod'?)",
		"allow:\n- keys: [hint]\n  maxHeadroom: 20%":    "are for 'headroom'",
		"allow:\n- keys: [hint]\n  namespaces: ['[a']":  "neither a name nor a pattern",
		"allow:\n- keys: [hint]\n  nmespaces: [a]":      "nmespaces",
		"a: 1\n---\nb: 2":                               "unknown key 'a'",
		"onMissing: reject\n---\nonMissing: reject":     "more than one document",
		"[]":        "cannot unmarshal",
		"":          "",
		"# nothing": "",
	} {
		_, err := Parse([]byte(text))
		if (err == nil) != (part == "") || (err != nil && !strings.Contains(err.Error(), part)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The files in the README are valid, and the one that shows the defaults does.
func TestExamplesOfTheReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(examples) != 2 {
		t.Fatalf("%d examples", len(examples))
	}
	for i, example := range examples {
		parsed, err := Parse(example[1])
		if err != nil {
			t.Errorf("%s: %v", example[1], err)
		}
		if i == 0 && !reflect.DeepEqual(normal(parsed), normal(Default())) {
			t.Errorf("those are not the defaults: %+v", parsed)
		}
	}
}

// normal has no list where it is empty.
func normal(config Config) Config {
	if len(config.Defaults) == 0 {
		config.Defaults = nil
	}
	return config
}
