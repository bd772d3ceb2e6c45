import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parser } from '@lezer/python'
import { openapiDocument } from '../../openapi-document.ts'
import { modelOf } from '../model.ts'
import { SMALL_DOCUMENT } from '../small-document.ts'
import { syntaxFaults } from '../syntax-faults.ts'
import { snake } from '../text.ts'
import { writePython } from './write-python.ts'
import type { Document } from '../document.ts'

const model = modelOf((await openapiDocument()) as Document)
const text = writePython(model)

test('the client for Python is Python by its grammar, and a text that is not is noticed', () => {
  assert.deepEqual(syntaxFaults(parser, text), [])
  assert.equal(syntaxFaults(parser, text.replace('(TypedDict):', '(TypedDict:')).length > 0, true)
})

test('the client for Python has each operation and each type once', () => {
  const methods = [...text.matchAll(/^ {4}def ([a-z]\w+)/gm)].map(([, name]) => name)
  assert.equal(new Set(methods).size, methods.length)
  for (const { id } of model.operations) assert.ok(methods.includes(snake(id)), id)
  const types = [...text.matchAll(/^(?:class )?(\w+)(?:\(TypedDict\):| = TypedDict\()/gm)].map(
    ([, name]) => name,
  )
  assert.deepEqual(
    types,
    model.types.map(({ name }) => name),
  )
})

test('in Python, a request has the values of a string as literals, and an answer has any string', () => {
  const small = writePython(modelOf(SMALL_DOCUMENT))
  assert.ok(
    small.includes(`class SetThing(TypedDict):
    # How large. Absent: as it is.
    size_mib: NotRequired[int]
    # Removed if \`null\`.
    mode: NotRequired[Literal["on", "off"] | None]
    names: NotRequired[list[str]]
    servers: NotRequired[list[str] | None]
    owner_id: str
    parts: list[str]
`),
    small,
  )
  assert.ok(
    small.includes(`Thing = TypedDict(
    "Thing",
    {
        "from": "NotRequired[str]",
        "labels": "dict[str, str]",
    },
)
`),
    small,
  )
  assert.ok(
    small.includes(`    def set_thing(
        self, id: str, body: SetThing,
        *,
        dry_run: bool | None = None,
        if_match: str | None = None,
    ) -> Answer[Thing | None]:
        """Set a thing.
        It says \\\\d.
        """
        return self._send("PUT", f"/v1/things/{_quote(id)}", {"dry_run": dry_run}, {"if-match": if_match}, body)
`),
    small,
  )
})
