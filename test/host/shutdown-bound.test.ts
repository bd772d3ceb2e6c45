/** A stop of the installed daemon waits as long as configured, and systemd allows it. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:tls'
import { test } from 'node:test'
import { closeController, controllerIdentity } from '../../lab/inside/controller.ts'
import { ready, sh, unitProperty } from '../../lab/inside/shell.ts'
import { sharedHost } from './shared-host.ts'

const CONFIG = '/etc/vmhostd/config.toml'
/** Longer than TimeoutStopSec= of the unit, and shorter than the bound on a request (`limits.requestMs`). */
const BOUND_SECONDS = 21

sharedHost({
  make: async () => {
    const text = readFileSync(CONFIG, 'utf8')
    writeFileSync(
      CONFIG,
      text.replace(/^#?shutdown_bound_seconds = .*$/m, `shutdown_bound_seconds = ${BOUND_SECONDS}`),
    )
    await sh('systemctl', 'restart', 'vmhostd')
    await ready()
  },
})

/** Sends a request that never ends, like that of a hung controller: its body does not come. */
async function hangingRequest(): Promise<void> {
  const socket = connect({ host: 'localhost', port: 9000, ...controllerIdentity() })
  socket.on('error', () => {})
  const answered = Promise.withResolvers<void>()
  socket.on('data', () => answered.resolve())
  // The daemon's request for the body shows that the request is under way.
  socket.write(
    'PUT /v1/vms/never HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n',
  )
  socket.write('Content-Type: application/json\r\n\r\n')
  await answered.promise
}

test('a stop with unfinished work takes the configured bound, and systemd does not kill the daemon', async () => {
  await hangingRequest()
  closeController()
  const startedAt = performance.now()
  await sh('systemctl', 'stop', 'vmhostd')
  const seconds = (performance.now() - startedAt) / 1000
  assert.equal(await unitProperty('vmhostd', 'Result'), 'success', `systemd killed it after ${seconds} s`)
  assert.ok(seconds >= BOUND_SECONDS - 0.1, `it ended after ${seconds} s`)
})
