import assert from 'node:assert/strict'
import { test } from 'node:test'
import { objectInJson, parsedJson } from './parsed-values.ts'

test('a text that is not JSON has no value, and each value of JSON is one', () => {
  for (const text of ['', '{', 'undefined']) assert.equal(parsedJson(text), undefined)
  for (const value of [null, 0, '', [], { a: 1 }]) assert.deepEqual(parsedJson(JSON.stringify(value)), value)
})

test('a text that is not an object in JSON has no members', () => {
  for (const text of ['', 'null', '1', '"text"', '[1]']) assert.deepEqual(objectInJson(text), {})
  assert.deepEqual(objectInJson('{"a":1}'), { a: 1 })
})
