package lexicon

import "slices"

// Places is how many characters have a place.
const Places = hanCount

// hanPlaces are the places of the common Chinese characters.
var hanPlaces = orderHan()

func orderHan() *[hanCount]uint16 {
	var counts [hanCount]int32
	for _, r := range wordText {
		if i, ok := hanIndex(r); ok {
			counts[i]++
		}
	}
	order := make([]uint16, hanCount)
	for i := range order {
		order[i] = uint16(i)
	}
	slices.SortStableFunc(order, func(a, b uint16) int { return int(counts[b] - counts[a]) })
	places := new([hanCount]uint16)
	for place, i := range order {
		places[i] = uint16(place)
	}
	return places
}

// Place returns where tables by character hold what they know of r, a number below [Places]; ok is false for all but the common Chinese
// characters. Those that words are made of most come first, so that what is asked for most lies close together.
func Place(r rune) (place int, ok bool) {
	i := uint32(r - hanFirst)
	if i >= hanCount {
		return 0, false
	}
	return int(hanPlaces[i]), true
}
