package rag

import (
	"reflect"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestDocumentsNameValues: what a document says is sensitive comes with its passages, after a restart too; other values are another
// version.
func TestDocumentsNameValues(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb")
		known := []Known{{"person", "星语呢喃"}, {"company", "Zorblax"}}
		put := func(known []Known) (IngestResult, error) {
			return s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("星语呢喃 was here."), Known: known})
		}
		first, err := put(known)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := put(known); err != nil || !reflect.DeepEqual(again, first) {
			t.Errorf("the same again: %+v, %v", again, err)
		}
		for name, s := range map[string]*library{"at once": s, "after a restart": service(t, db, newHashed())} {
			if got := find(t, s, "kb", "who was here"); len(got) != 1 || !reflect.DeepEqual(got[0].Known, known) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if other, err := put(known[:1]); err != nil || other.Version != "v2" {
			t.Errorf("other values: %+v, %v", other, err)
		}
		if got := find(t, s, "kb", "who was here"); len(got) != 1 || !reflect.DeepEqual(got[0].Known, known[:1]) {
			t.Errorf("%+v", got)
		}
		for what, wrong := range map[string][]Known{
			"short": {{"person", "一"}}, "long": {{"person", strings.Repeat("长", 129)}}, "no class": {{"", "星语呢喃"}},
			"no text": {{"person", "\xff星语"}}, "too many": make([]Known, MaxKnown+1),
		} {
			if _, err := put(wrong); !fault.Is(err, fault.CodeInvalidValue) || strings.Contains(err.Error(), "星语") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := db.Exec("UPDATE rag_versions SET suite = '', known = '{星语呢喃'").Error; err != nil { // as a release before had it, in clear
			t.Fatal(err)
		}
		if _, err := s.store.content(t.Context(), versionID(first.ID, 2)); err == nil || strings.Contains(err.Error(), "星语") {
			t.Errorf("damaged: %v", err)
		}
	})
}
