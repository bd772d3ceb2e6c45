import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareSchema } from './schema.ts'
import type { Schema } from './flat-schema.ts'
import type { Comparison } from './schema.ts'

type Row = readonly [side: Comparison['side'], published: Schema, today: Schema, findings: readonly string[]]

const rows: readonly Row[] = [
  ['request', {}, { type: 'string' }, ['it is refused unless it is string']],
  ['request', { type: 'string' }, {}, []],
  ['request', { enum: ['a', 1] }, { type: ['string', 'integer'], enum: ['a', 1] }, []],
  ['request', { enum: ['a', null] }, { type: 'string', enum: ['a', null] }, ['it is refused as null']],
  ['request', { type: 'integer' }, { type: 'number' }, []],
  ['request', { type: 'number' }, { type: 'integer' }, ['it is refused as number']],
  [
    'request',
    { type: 'array' },
    { type: 'array', items: { type: 'string' } },
    ['it[] is refused unless it is string'],
  ],
  [
    'request',
    { type: 'object' },
    { type: 'object', propertyNames: { type: 'string', maxLength: 9 } },
    ['it, name of a member, has a tighter bound: maxLength 9'],
  ],
  [
    'request',
    { type: 'object', additionalProperties: true },
    { type: 'object', additionalProperties: { type: 'string' } },
    ['it[] is refused unless it is string'],
  ],
  [
    'request',
    { type: 'object' },
    { additionalProperties: false, type: 'object' },
    ['it refuses members that it does not name'],
  ],
  ['request', { additionalProperties: false, type: 'object' }, { type: 'object' }, []],
  ['request', { format: 'ipv4', type: 'string' }, { type: 'string' }, []],
  ['answer', {}, { type: 'string' }, []],
  ['answer', { type: 'string' }, {}, ['it may be of any type']],
  ['answer', { type: 'integer' }, { type: 'number' }, ['it may be number']],
  ['answer', { type: 'number' }, { type: 'integer' }, []],
  ['answer', { type: 'string' }, { format: 'date-time', type: 'string' }, []],
  ['answer', { type: 'object' }, { additionalProperties: false, type: 'object' }, []],
  [
    'answer',
    { type: 'object', additionalProperties: { type: 'string' } },
    { type: 'object' },
    ['it[] may be of any type'],
  ],
]

test('what clients send may become wider, and what they read narrower', () => {
  const schemas = { published: {}, today: {} }
  for (const [side, published, today, findings] of rows)
    assert.deepEqual(
      compareSchema({ published, today }, { side, schemas, where: 'it' }),
      findings,
      `${side}: ${JSON.stringify(published)}, then ${JSON.stringify(today)}`,
    )
})
