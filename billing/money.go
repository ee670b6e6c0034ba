package billing

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Money is an amount in 10⁻⁹ units of the currency.
type Money int64

// Decimal writes an amount in units of the currency, exactly and without trailing zeros.
func (m Money) Decimal() string {
	text := new(big.Rat).SetFrac64(int64(m), 1e9).FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// ParseMoney reads an amount in units of the currency: a decimal that is not negative, with at most nine decimals.
func ParseMoney(text string) (Money, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok || strings.ContainsAny(text, "eE/xXpP_") {
		return 0, fmt.Errorf("%q is no amount; write one such as 200.50", text)
	}
	r.Mul(r, big.NewRat(1e9, 1))
	if !r.IsInt() || !r.Num().IsInt64() || r.Sign() < 0 {
		return 0, errors.New("an amount is not negative and has at most nine decimals")
	}
	return Money(r.Num().Int64()), nil
}
