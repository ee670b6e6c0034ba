package wrapkey

import (
	"errors"
	"fmt"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// Why an envelope of an epoch does not open. Any other reason lies in the envelope itself, or in the database: see [Keys.Open].
var (
	ErrUnknown   = errors.New("no such wrapping key: it is in a newer copy of the database, or the row was changed")
	ErrDestroyed = errors.New("the wrapping key was destroyed after a rotation: what is needed of this was wrapped anew, so read it again; in an old copy it is lost")
	ErrSuite     = errors.New("the suite is unknown to this release")
	ErrDamaged   = errors.New("it was changed, or the master key is another one")
)

// epochSize is how many random bytes an epoch has.
const epochSize = 32

// Envelope is something wrapped, as a row has it. The zero epoch is what rows have that were stored before there were epochs.
type Envelope struct {
	Epoch  int64
	Suite  seal.Suite
	Sealed []byte
}

// Keys wraps for one use. It is safe for concurrent use.
type Keys struct {
	ring   *keyring.Ring
	labels map[seal.Suite]string

	mu     sync.Mutex
	epochs map[int64]map[seal.Suite]seal.Key
}

// New returns the keys of one use, which are derived under these labels of the keyring, by the suite. It asks no database.
func New(ring *keyring.Ring, intl, gm string) *Keys {
	return &Keys{ring: ring, labels: map[seal.Suite]string{seal.Intl: intl, seal.GM: gm}, epochs: map[int64]map[seal.Suite]seal.Key{}}
}

// Active wraps under the active epoch, in one transaction.
type Active struct {
	keys  *Keys
	tx    *gorm.DB
	epoch int64
}

// Active returns what wraps under the active epoch. tx is the transaction that stores the envelopes: until it ends, no other epoch becomes active.
func (k *Keys) Active(tx *gorm.DB) (Active, error) {
	now, err := readRotation(tx, clause.LockingStrengthShare)
	return Active{k, tx, now.Active}, err
}

// Seal wraps text.
func (a Active) Seal(suite seal.Suite, text, label []byte) (Envelope, error) {
	return a.keys.sealUnder(a.tx, a.epoch, suite, text, label)
}

// Renew wraps anew what e holds, unless it is of the active epoch. Errors: as of [Keys.Open].
func (a Active) Renew(e Envelope, label []byte) (Envelope, error) {
	if e.Epoch == a.epoch {
		return e, nil
	}
	text, err := a.keys.Open(a.tx, e, label)
	if err != nil {
		return Envelope{}, err
	}
	return a.Seal(e.Suite, text, label)
}

// Seal wraps one text under the active epoch, as [Keys.Active] does.
func (k *Keys) Seal(tx *gorm.DB, suite seal.Suite, text, label []byte) (Envelope, error) {
	a, err := k.Active(tx)
	if err != nil {
		return Envelope{}, err
	}
	return a.Seal(suite, text, label)
}

// SealDerived wraps text under epoch 0, without a database.
func (k *Keys) SealDerived(suite seal.Suite, text, label []byte) (Envelope, error) {
	return k.sealUnder(nil, 0, suite, text, label)
}

func (k *Keys) sealUnder(db *gorm.DB, epoch int64, suite seal.Suite, text, label []byte) (Envelope, error) {
	key, err := k.key(db, epoch, suite)
	if err != nil {
		return Envelope{}, err
	}
	return Envelope{epoch, suite, key.Seal(text, label)}, nil
}

// Open returns what was wrapped. db, a transaction or not, is where an epoch is looked up that is met for the first time. Errors: ErrDamaged,
// ErrUnknown, ErrDestroyed, ErrSuite; those of the database.
func (k *Keys) Open(db *gorm.DB, e Envelope, label []byte) ([]byte, error) {
	key, err := k.key(db, e.Epoch, e.Suite)
	if err != nil {
		return nil, err
	}
	text, err := key.Open(e.Sealed, label)
	if err != nil {
		return nil, ErrDamaged
	}
	return text, nil
}

// NewDataKey makes a key for the contents of one row, and wraps it, as Seal does. Rotations then wrap the key anew and leave the contents.
func (k *Keys) NewDataKey(tx *gorm.DB, suite seal.Suite, label []byte) (seal.Key, Envelope, error) {
	raw := seal.Random(suite.KeySize())
	defer clear(raw)
	key, err := seal.NewKey(suite, raw)
	if err != nil {
		return seal.Key{}, Envelope{}, err
	}
	e, err := k.Seal(tx, suite, raw, label)
	return key, e, err
}

// OpenDataKey returns a key that NewDataKey has made. Errors: those of Open that lie in the envelope with CodeInternal, since to try again would not help;
// those of the database.
func (k *Keys) OpenDataKey(db *gorm.DB, e Envelope, label []byte) (seal.Key, error) {
	raw, err := k.Open(db, e, label)
	if unreadable(err) {
		err = fault.Wrap(err, fault.CodeInternal)
	}
	if err != nil {
		return seal.Key{}, fmt.Errorf("open a data key: %w", err)
	}
	defer clear(raw)
	return seal.NewKey(e.Suite, raw)
}

// unreadable reports whether err, of Open, lies in the envelope: trying again would not help.
func unreadable(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrDestroyed) || errors.Is(err, ErrSuite)
}

// key returns the key of an epoch and suite. It is kept in memory until a newer epoch is met.
func (k *Keys) key(db *gorm.DB, epoch int64, suite seal.Suite) (seal.Key, error) {
	if !suite.Known() {
		return seal.Key{}, fmt.Errorf("suite %q: %w", suite, ErrSuite)
	}
	k.mu.Lock()
	key, ok := k.epochs[epoch][suite]
	k.mu.Unlock()
	if ok {
		return key, nil
	}
	ring := k.ring
	if epoch != 0 {
		raw, err := readEpoch(db, k.ring, epoch)
		if err != nil {
			return seal.Key{}, err
		}
		ring = keyring.FromBytes(raw)
		clear(raw)
	}
	keys := map[seal.Suite]seal.Key{}
	for s, label := range k.labels {
		var err error
		if keys[s], err = seal.NewKey(s, ring.Derive(label)[:s.KeySize()]); err != nil {
			return seal.Key{}, fmt.Errorf("wrapping key %d: %w", epoch, err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range k.epochs { // those before the last two may be destroyed by now; who needs one reads it again
		if n != 0 && n < epoch-1 {
			delete(k.epochs, n)
		}
	}
	k.epochs[epoch] = keys
	return keys[suite], nil
}

// row is a row of wrapping_keys.
type row struct {
	Number    int64
	Suite     string
	State     string
	Created   int64
	Destroyed int64
	Wrapped   []byte
}

// TableName implements gorm's Tabler.
func (row) TableName() string { return "wrapping_keys" }

func rowColumns() []string {
	return []string{"number", "suite", "state", "created", "destroyed", "wrapped"}
}

// The states of an epoch.
const (
	StateActive    = "active"    // new envelopes are wrapped under it
	StateRetiring  = "retiring"  // older envelopes may be
	StateDestroyed = "destroyed" // its bytes are gone
)

// readEpoch returns the bytes of a random epoch.
func readEpoch(db *gorm.DB, ring *keyring.Ring, epoch int64) ([]byte, error) {
	var rows []row
	if err := db.Select(rowColumns()).Where("number = ?", epoch).Find(&rows).Error; err != nil {
		return nil, database.Unavailable("read the wrapping keys", err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("epoch %d: %w", epoch, ErrUnknown)
	}
	r := rows[0]
	if r.State == StateDestroyed {
		return nil, fmt.Errorf("epoch %d: %w", epoch, ErrDestroyed)
	}
	key, err := keyOfKeys(ring, seal.Suite(r.Suite))
	if err != nil {
		return nil, fmt.Errorf("wrapping key %d: %w", epoch, err)
	}
	raw, err := key.Open(r.Wrapped, r.label())
	if err != nil || len(raw) != epochSize {
		return nil, fmt.Errorf("wrapping key %d: it was changed, or the master key is another one", epoch)
	}
	return raw, nil
}

// newEpoch returns a row with new random bytes.
func newEpoch(ring *keyring.Ring, suite seal.Suite, number, now int64) (row, error) {
	r := row{Number: number, Suite: string(suite), State: StateActive, Created: now}
	key, err := keyOfKeys(ring, suite)
	if err != nil {
		return row{}, fmt.Errorf("make wrapping key %d: %w", number, err)
	}
	r.Wrapped = key.Seal(seal.Random(epochSize), r.label())
	return r, nil
}

// label binds the bytes of an epoch to its number.
func (r row) label() []byte { return seal.Label("wrapping key", fmt.Sprint(r.Number)) }

// keyOfKeys encrypts the random epochs.
func keyOfKeys(ring *keyring.Ring, suite seal.Suite) (seal.Key, error) {
	label := "wrapping-key/v1"
	if suite == seal.GM {
		label = "wrapping-key/sm4/v1"
	}
	return seal.NewKey(suite, ring.Derive(label)[:max(0, suite.KeySize())])
}
