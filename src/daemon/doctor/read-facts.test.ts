import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { lookAtPool, readRoom, readListeners } from './read-facts.ts'
import { markPool } from '../../host/pool/pool-marker.ts'
import { parseConfig } from '../../config/config.ts'
import { refuseCall } from '../../../test/refuse-call.ts'

test('after a boot there is room for the files of a daemon that was not started yet, and none without a state', async () => {
  const room = await readRoom({
    stateDirectory: '/nonexistent/state',
    runDirectory: '/run/vmhostd-not-started',
  })
  assert.deepEqual(
    room.map(({ what, directory, availableMib }) => [what, directory, availableMib.known]),
    [
      ['state', '/nonexistent/state', false],
      ['run', '/run/vmhostd-not-started', true],
    ],
  )
})

test('a pool that is full or read-only is not taken for one that is lost, and each has its path', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'doctor-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const faultOf = async (): Promise<string | undefined> => {
    const look = await lookAtPool(directory)
    if (look.known) return 'none'
    assert.ok(look.because.startsWith(directory), look.because)
    return look.fault
  }
  assert.equal(await faultOf(), 'unmarked')
  await markPool(directory)
  assert.equal(await faultOf(), 'none')
  t.after(syncBuiltinESMExports)
  for (const [code, fault] of [
    ['ENOSPC', 'full'],
    ['EDQUOT', 'full'],
    ['EROFS', 'read-only'],
    ['EIO', undefined],
  ] as const) {
    const { mock } = t.mock.method(fs, 'writeFile', async () => {
      throw Object.assign(new Error(`${code}: write`), { code, errno: -constants.errno[code] })
    })
    syncBuiltinESMExports()
    assert.equal(await faultOf(), fault)
    mock.restore()
  }
})

const AF_INET6 = 10
// As a kernel that was booted with ipv6.disable=1, for all tests of this file.
refuseCall('socket', 'EAFNOSUPPORT', AF_INET6)

const read = (text: string) => readListeners(parseConfig(text, { path: 'config.toml', hostname: 'host-1' }))

test('each listener of the configuration is a fact, with the address that the daemon takes', async () => {
  const known = { known: true, value: '0.0.0.0' }
  assert.deepEqual(await read(''), [
    { listener: 'controller', table: 'controller', address: '::', boundAt: known },
    { listener: 'nodes', table: 'coordination', address: '::', boundAt: known },
  ])
  const names = async (text: string) => (await read(text)).map(({ listener }) => listener)
  assert.deepEqual(await names('[metrics]\nenabled = true'), ['controller', 'nodes', 'metrics'])
  assert.deepEqual(await names('[coordination]\nenabled = false'), ['controller'])
})

test('an address that the host does not have is named with its reason, whatever its port is', async () => {
  // TEST-NET-1 of RFC 5737.
  const tables = ['192.0.2.1', '127.0.0.1', '[::1]'].map((address) => `listen_address = "${address}"`)
  const [controller, nodes, metrics] = tables
  const found = await read(
    `[controller]\n${controller}\n[coordination]\n${nodes}\n[metrics]\nenabled = true\n${metrics}`,
  )
  const because = found.map(({ boundAt }) => (boundAt.known ? boundAt.value : boundAt.because))
  assert.match(because[0] ?? '', /EADDRNOTAVAIL/)
  assert.equal(because[1], '127.0.0.1')
  assert.match(because[2] ?? '', /EAFNOSUPPORT/)
})
