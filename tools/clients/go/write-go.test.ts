import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parser } from '@lezer/go'
import { openapiDocument } from '../../openapi-document.ts'
import { modelOf } from '../model.ts'
import { SMALL_DOCUMENT } from '../small-document.ts'
import { syntaxFaults } from '../syntax-faults.ts'
import { writeGo } from './write-go.ts'
import type { Document } from '../document.ts'

const model = modelOf((await openapiDocument()) as Document)
const text = writeGo(model)

test('the client for Go is Go by its grammar, and a text that is not is noticed', () => {
  assert.deepEqual(syntaxFaults(parser, text), [])
  assert.equal(syntaxFaults(parser, text.replace('struct {', 'struct (')).length > 0, true)
})

test('the client for Go has each operation and each type once', () => {
  const declared = [...text.matchAll(/^(?:type|func(?: \(\w+ \*?\w+(?:\[T\])?\))?) (\w+)/gm)].map(
    ([, name]) => name,
  )
  for (const { id } of model.operations)
    assert.equal(declared.filter((name) => name?.toLowerCase() === id.toLowerCase()).length >= 1, true, id)
  const types = [...text.matchAll(/^type (\w+)/gm)].map(([, name]) => name)
  assert.equal(new Set(types).size, types.length)
  for (const { name } of model.types) assert.ok(types.includes(name), name)
})

test('in Go, what can be absent is a pointer, what can be null in a request has three states, and a list may be empty', () => {
  const small = writeGo(modelOf(SMALL_DOCUMENT))
  assert.ok(
    small.includes(`type SetThing struct {
	// How large. Absent: as it is.
	SizeMib *int64 \`json:"size_mib,omitzero"\`
	// Removed if \`null\`. One of: \`on\`, \`off\`.
	Mode Nullable[string] \`json:"mode,omitzero"\`
	// The member names.
	Names []string \`json:"names,omitzero"\`
	// The member servers.
	Servers Nullable[List[string]] \`json:"servers,omitzero"\`
	// The member owner_id.
	OwnerID string \`json:"owner_id"\`
	// The member parts.
	Parts List[string] \`json:"parts"\`
}
`),
    small,
  )
  assert.ok(
    small.includes(`func (c *Client) SetThing(ctx context.Context, id string, body SetThing, options SetThingOptions) (*Answer[Thing], error) {
	query, headers := url.Values{}, http.Header{}
	set(query.Set, "dry_run", options.DryRun)
	setText(headers.Set, "if-match", options.IfMatch)
	return send[Thing](ctx, c, request{"PUT", "/v1/things/" + url.PathEscape(id), query, headers, body})
}
`),
    small,
  )
})
