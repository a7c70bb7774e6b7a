package scan

import (
	"math/big"
	"strconv"
)

// Nanoseconds reads a decimal number of microseconds exactly: integer part
// times 1000 plus three decimals, the fourth rounded half away from zero. A
// quoted number is accepted, because old writers quote. float64 is not used: a
// 19-digit absolute time does not fit its mantissa.
func Nanoseconds(b []byte) (int64, bool) {
	b = Unquote(b)
	s := b
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	var v int64
	i := 0
	for ; i < len(s) && s[i]-'0' < 10; i++ {
		if v > (1<<63-1-9)/10 {
			return 0, false
		}
		v = v*10 + int64(s[i]-'0')
	}
	if i == 0 || v > (1<<63-1)/1000-1 {
		return exponent(b)
	}
	v *= 1000
	if i < len(s) && s[i] == '.' {
		i++
		for _, unit := range [3]int64{100, 10, 1} {
			if i < len(s) && s[i]-'0' < 10 {
				v += unit * int64(s[i]-'0')
				i++
			}
		}
		if i < len(s) && s[i]-'0' < 10 {
			if s[i] >= '5' {
				v++
			}
			for i++; i < len(s) && s[i]-'0' < 10; i++ {
			}
		}
	}
	if i != len(s) {
		return exponent(b)
	}
	if neg {
		v = -v
	}
	return v, true
}

// exponent is the slow path for the spellings that the loop above leaves. The
// bounds on length and exponent keep a hostile number from costing memory.
func exponent(b []byte) (int64, bool) {
	if len(b) > 40 {
		return 0, false
	}
	for i, c := range b {
		if c == 'e' || c == 'E' {
			e, err := strconv.Atoi(string(b[i+1:]))
			if err != nil || e < -40 || e > 20 {
				return 0, false
			}
		} else if c != '.' && c != '-' && c != '+' && c-'0' > 9 {
			return 0, false
		}
	}
	r, ok := new(big.Rat).SetString(string(b))
	if !ok {
		return 0, false
	}
	r.Mul(r, big.NewRat(2000, 1))
	num := new(big.Int).Add(new(big.Int).Abs(r.Num()), r.Denom())
	num.Quo(num, new(big.Int).Mul(big.NewInt(2), r.Denom()))
	if r.Sign() < 0 {
		num.Neg(num)
	}
	return num.Int64(), num.IsInt64()
}

// Integer reads a whole number, quoted or not. A fraction of zeros is allowed
// (some exporters write ids as 12.0).
func Integer(b []byte) (int64, bool) {
	b = Unquote(b)
	if len(b) == 0 || len(b) > 24 {
		return 0, false
	}
	if v, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		return v, true
	}
	if ns, ok := Nanoseconds(b); ok && ns%1000 == 0 {
		return ns / 1000, true
	}
	return 0, false
}

func Unquote(b []byte) []byte {
	if len(b) >= 2 && b[0] == '"' && b[len(b)-1] == '"' {
		return b[1 : len(b)-1]
	}
	return b
}
