import assert from 'node:assert/strict'
import { test } from 'node:test'
import { leaveFreedMemory } from '../../../test/freed-memory.ts'
import { trimMemory, returnProgramPages, unchangedMappings } from './this-process.ts'
import { readFileSync } from 'node:fs'

const FREED_BYTES = 64 * 1024 * 1024

test('memory that a library has freed goes back to the host', () => {
  const freeRest = leaveFreedMemory(FREED_BYTES)
  const before = process.memoryUsage.rss()
  trimMemory()
  const after = process.memoryUsage.rss()
  freeRest()
  assert.ok(after < before - FREED_BYTES / 2, `${before - after} bytes were returned`)
})

const SMAPS = `00400000-00c00000 r--p 00000000 fe:00 1234                       /usr/bin/vmhostd
Rss:                8192 kB
Anonymous:             0 kB
00c00000-02000000 r-xp 00800000 fe:00 1234                       /usr/bin/vmhostd
Anonymous:             0 kB
02000000-02100000 r--p 01c00000 fe:00 1234                       /usr/bin/vmhostd
Anonymous:           432 kB
02100000-02200000 rw-p 01d00000 fe:00 1234                       /usr/bin/vmhostd
Anonymous:             0 kB
7f0000000000-7f0000010000 r-xp 00000000 fe:00 99                 /usr/lib/libc.so.6
Anonymous:             0 kB
7f0000020000-7f0000030000 rw-p 00000000 00:00 0
Anonymous:             0 kB
`

test('only parts of the file that cannot be written and were not changed are found', () => {
  assert.deepEqual(unchangedMappings(SMAPS, '/usr/bin/vmhostd'), [
    { begin: 0x40_0000n, end: 0xc0_0000n },
    { begin: 0xc0_0000n, end: 0x200_0000n },
  ])
})

test('pages of the program leave the memory, and it goes on', () => {
  const fileMib = (): number =>
    Number(/^RssFile:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
  const before = fileMib()
  returnProgramPages()
  assert.ok(fileMib() < before - 10, `${before} MiB, then ${fileMib()} MiB`)
})
