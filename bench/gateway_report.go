package main

import (
	"fmt"
	"io"
	"slices"
)

func headLoads(w io.Writer) {
	fmt.Fprintf(w, "%-12s %-24s %-24s %-24s %-30s %-22s %-20s\n",
		"connections", "side", "added p50 ms (min…max)", "added p99 ms (min…max)", "requests/s", "CPU s/1000", "peak MiB")
}

// reportLoads prints one row: every side, and how each setup of ours compares with each peer, round by round.
func reportLoads(w io.Writer, connections int, alone, disk []float64, sides []*gatewaySide) {
	fmt.Fprintf(w, "%-12d %-24s %-24s %-24s %-30s\n", connections, "upstream", "", "", spread(alone))
	for _, s := range sides {
		r := s.row
		fmt.Fprintf(w, "%-12d %-24s %-24s %-24s %-30s %-22s %-20s\n",
			connections, s.name, spread(r.p50.added), spread(r.p99.added), spread(r.rates), spread(r.cpu), wholes(r.peak))
	}
	for _, ours := range sides {
		for _, peer := range sides {
			if ours.ours && !peer.ours {
				fmt.Fprintf(w, "%-12d %s ÷ %s: requests/s %s, CPU %s\n", connections, ours.name, peer.name,
					spread(ratios(ours.row.rates, peer.row.rates)), spread(ratios(ours.row.cpu, peer.row.cpu)))
			}
		}
	}
	if len(disk) > 0 {
		fmt.Fprintf(w, "%-12d the disk alone, one write and sync of %d bytes, ms: %s; a request waits for two\n", connections, recordBytes, spread(disk))
	}
	for _, s := range sides {
		if s.ours {
			fmt.Fprintf(w, "%-12d %s: all in the database after s: %s, sealed after s: %s\n", connections, s.name, spread(s.row.shipped), spread(s.row.sealed))
		}
	}
}

func wholes(v []float64) string {
	if len(v) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f (%.0f…%.0f)", median(v), slices.Min(v), slices.Max(v))
}
