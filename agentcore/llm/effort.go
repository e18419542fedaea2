package llm

import "fmt"

// ParseEffort reads a reasoning level. "" is valid and means that the model decides. The error names the accepted levels.
func ParseEffort(s string) (Effort, error) {
	switch e := Effort(s); e {
	case "", EffortOff, EffortMinimal, EffortLow, EffortMedium, EffortHigh, EffortXHigh, EffortMax, EffortUltra:
		return e, nil
	}
	return "", fmt.Errorf("effort %q: want off, minimal, low, medium, high, xhigh, max or ultra", s)
}

// Fold returns the level that models know: ultra becomes max, every other level stays. Source: spec create-agent
// "Reasoning effort".
func (e Effort) Fold() Effort {
	if e == EffortUltra {
		return EffortMax
	}
	return e
}

// Named reports whether a request names e at all: not for "" and not for off.
func (e Effort) Named() bool { return e != "" && e != EffortOff }
