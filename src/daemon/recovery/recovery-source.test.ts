import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../../config/config.ts'
import { sourceFromRequest } from './recovery-source.ts'

test('a request that is not JSON is refused with its file and the place, and without its text', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'recovery-source-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'request.json')
  const config = parseConfig('', { path: 'the defaults', hostname: 'host-1' })
  const refused = (text: string, message: string): void => {
    writeFileSync(path, text)
    assert.throws(() => sourceFromRequest(path, config, { diskMib: 64 }), { message })
  }
  refused('{"a": 1,\n "b": "https://store.example/?signature=1" 2}', `${path} is not JSON: line 2, column 44`)
  refused('{"a": https://store.example/?signature=1}', `${path} is not JSON`)
})

test('a request that cannot be read is named', () => {
  const config = parseConfig('', { path: 'the defaults', hostname: 'host-1' })
  const message = `${tmpdir()} cannot be read`
  assert.throws(() => sourceFromRequest(tmpdir(), config, { diskMib: 64 }), { message })
})
