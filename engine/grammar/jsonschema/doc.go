// Package jsonschema is a leaf that turns a JSON Schema into a grammar of the JSON texts that satisfy it.
//
// [Compile] adds a schema to a grammar.Builder, as a part of a larger grammar such as a tool call's; [Parse] makes a grammar of it
// alone. Schemas are of draft 2020-12, with the spellings of drafts 4 to 7 and OpenAPI 3.0 where they
// differ.
//
// # The rule
//
// A keyword is either enforced exactly or refused, by an [Error] that names its JSON pointer and says how to mend the schema. Nothing
// is silently weaker. Annotations are ignored: title, description, default, examples, $comment, deprecated, readOnly, writeOnly,
// contentEncoding, discriminator and their like, and every name that begins with "x-". Other unknown names are refused, because a keyword with a
// typing mistake would otherwise demand nothing.
//
// # Keywords
//
//   - type (one or a list), enum and const (any JSON values), nullable; the schemas true and false.
//   - $ref and $defs or definitions, by JSON pointer within the document or by $anchor, recursive ones too. What stands beside $ref
//     holds as well. Other documents are not read.
//   - allOf, anyOf, and oneOf: branches that provably share no value are a choice; where they may share one, each branch is taken
//     without the values of the others, as far as that can be said.
//   - not, if, then, else, dependentRequired, dependentSchemas, dependencies: as far as the opposite of what they name can be said. It
//     can of type, enum, const, minimum and maximum, lengths and counts, pattern, exact formats, required, properties, items, a plain
//     contains, and of combinations of these. It cannot of multipleOf, uniqueItems, additionalProperties, patternProperties,
//     propertyNames, nor of the formats marked below.
//   - Strings: minLength, maxLength, pattern, format.
//   - Numbers: minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf.
//   - Objects: properties, required, additionalProperties, patternProperties (up to six in one place), propertyNames, minProperties,
//     maxProperties. minProperties counts names that the schema spells out, and one other: other names may repeat, so more cannot be
//     promised and are refused.
//   - Arrays: items, prefixItems (or a list under items, with additionalItems), minItems, maxItems; uniqueItems where the items are an
//     enum of at most eight values, or there is at most one; contains, minContains and maxContains once per array without prefixItems.
//
// Beside an enum or a const everything is allowed, because its values are simply checked.
//
// Refused by name: unevaluatedProperties, unevaluatedItems, $dynamicRef, $recursiveRef, an inner $id.
//
// # How values are written
//
// A grammar allows one value in fewer spellings than JSON does, and every text that it allows is valid:
//
//   - Members come in the order of properties, those of the schema itself before those of its references, then names only required,
//     then others. A name that the schema spells out occurs at most once; optional ones may be absent.
//   - Spaces are as [Whitespace] says: by default at most one after ':' and after ',', which is what models write by themselves, so
//     neither a compact nor an evenly spaced text is refused, and no answer can run into endless spaces.
//   - Strings are valid UTF-8 and never hold half a surrogate pair. Free strings, with or without bounds on their length, may use all
//     of JSON's escapes. Names, and strings with a pattern, a format or a value, escape only what JSON demands.
//   - Whole numbers have at most 18 digits, others also 18 after the point and an exponent of two digits, or more if a bound has more.
//     Numbers with bounds or multiples have no exponent. Values of an enum are spelled as in the schema. An
//     integer is never minus zero.
//
// # Patterns
//
// A pattern is an expression of RE2 syntax, found anywhere in the string unless ^ or $ hold it, with \uXXXX and \cX as ECMA-262 writes
// them. A dot matches no end of a line: not \n, \r, U+2028 nor U+2029. Classes such as \d, \s and \w are ASCII. \b, the m flag,
// look-around and back-references are refused. Lengths count characters.
//
// # Formats
//
// date, ipv4, ipv6, uuid and json-pointer allow all that the format does. Of others the common form is allowed: time and date-time
// (upper case, up to nine digits after the second, no leap seconds), duration (up to nine digits a part), email (unquoted names of up to
// 62 characters, up to four labels), hostname (up to six labels, of forty characters each), and uri (http, https, ftp, ws and wss with a
// host name; mailto, urn and tel). int32 and int64 are bounds; float, double and password say nothing about JSON. Other formats are
// refused.
//
// # How
//
// A schema's places become shapes: what may stand where certain subschemas hold together. A shape's subschemas are written as a
// disjunctive normal form, whose conjunctions are merged keyword by keyword. Places with the same subschemas share a shape, so
// recursion ends and a definition that is used a thousand times costs as much as one. Everything is counted against [Limits].
package jsonschema
