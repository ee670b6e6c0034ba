package database

import (
	"errors"
	"fmt"

	"github.com/sluice-project/sluice/internal/fault"
)

// Unavailable gives an error of the database, which is nobody's mistake, its code and the step that it broke. What has a code keeps it as it is.
func Unavailable(step string, err error) error {
	var coded *fault.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return fault.Wrap(fmt.Errorf("%s: %w", step, err), fault.CodeDatabaseUnavailable)
}
