package text

import (
	"math"
	"strconv"
	"strings"
)

// Int writes a whole number with its digits in groups of three.
func (c *Catalogue) Int(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Bytes writes a size with binary units and about three digits: 512 bytes, 22.5 KiB, 1.05 GiB.
func (c *Catalogue) Bytes(n uint64) string {
	units := [...]string{"unit.kib", "unit.mib", "unit.gib"}
	if n < 1024 {
		return c.T("unit.bytes", "n", n)
	}
	v, u := float64(n)/1024, 0
	// 1,023.5 would be written as 1,024: then the next unit reads better.
	for v >= 1023.5 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return c.T(units[u], "n", c.Decimal(v))
}

// Decimal writes three digits: two decimals below 10, one below 100, none above; zeros at the end are left out.
func (c *Catalogue) Decimal(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	a := math.Abs(v)
	digits := 0
	switch {
	case a < 9.995:
		digits = 2
	case a < 99.95:
		digits = 1
	default:
		return c.Int(int64(math.Round(v)))
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// Percent writes a share of one: 98 %, 3.2 %, and 0.05 % for what would otherwise look like nothing.
func (c *Catalogue) Percent(p float64) string {
	v := p * 100
	switch {
	case v >= 99.5 && v < 100: // not quite certain is not 100 %
		return c.T("unit.percent", "n", Fixed(math.Floor(v*100)/100, 2))
	case v > 0 && v < 0.005:
		return c.T("unit.percent.tiny")
	case v < 9.5:
		return c.T("unit.percent", "n", c.Decimal(v))
	}
	return c.T("unit.percent", "n", strconv.Itoa(int(math.Round(v))))
}

// Fixed writes a number with exactly so many decimals.
func Fixed(v float64, digits int) string {
	return strconv.FormatFloat(v, 'f', digits, 64)
}
