import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { collectModules } from './modules.ts'

const module = (depends: string) => Buffer.from(`\x7fELF\0license=GPL\0depends=${depends}\0name=x\0`)

test('modules come with what they depend on, dependencies first, whatever packs them', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'modules-'))
  t.after(() => rmSync(folder, { recursive: true }))
  writeFileSync(path.join(folder, 'virtio_net.ko'), module('net_failover'))
  writeFileSync(path.join(folder, 'net_failover.ko.zst'), zstdCompressSync(module('failover')))
  writeFileSync(path.join(folder, 'failover.ko.xz'), 'packed')
  const modules = await collectModules(folder, ['virtio_net', 'built-in'], () => Promise.resolve(module('')))
  assert.deepEqual(
    modules.map(({ name }) => name),
    ['failover', 'net_failover', 'virtio_net'],
  )
  assert.deepEqual(modules[1]?.content, module('failover'))
})
