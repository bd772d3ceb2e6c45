import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderCpio } from './cpio.ts'

const HEADER_BYTES = 110

/** Reads an archive the way the kernel does (init/initramfs.c): header, name, body, each padded to four bytes. */
function parse(archive: Buffer): { name: string; mode: string; body: string }[] {
  const members = []
  for (let at = 0; at < archive.length;) {
    const header = archive.toString('latin1', at, at + HEADER_BYTES)
    assert.equal(header.slice(0, 6), '070701')
    const field = (index: number) => Number.parseInt(header.slice(6 + index * 8, 14 + index * 8), 16)
    const nameEnd = at + HEADER_BYTES + field(11)
    const body = Math.ceil(nameEnd / 4) * 4
    const name = archive.toString('utf8', at + HEADER_BYTES, nameEnd - 1)
    const text = archive.toString('utf8', body, body + field(6))
    members.push({ name, mode: field(1).toString(8), body: text })
    at = Math.ceil((body + field(6)) / 4) * 4
  }
  return members
}

test('an archive holds what went in, with its kinds, modes and targets, and its end mark', () => {
  const archive = renderCpio([
    { kind: 'folder', path: 'bin' },
    { kind: 'file', path: 'bin/sh', mode: 0o755, content: Buffer.from('abcde') },
    { kind: 'link', path: 'bin/ls', target: 'sh' },
  ])
  assert.deepEqual(parse(archive), [
    { name: 'bin', mode: '40755', body: '' },
    { name: 'bin/sh', mode: '100755', body: 'abcde' },
    { name: 'bin/ls', mode: '120777', body: 'sh' },
    { name: 'TRAILER!!!', mode: '0', body: '' },
  ])
})

test('equal content makes an equal archive', () => {
  const entries = [{ kind: 'file', path: 'odd', mode: 0o644, content: Buffer.from('xyz') } as const]
  assert.deepEqual(renderCpio(entries), renderCpio(entries))
})
