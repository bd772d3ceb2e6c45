import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startWatchdog, watchdogEveryMs } from './watchdog.ts'

test('systemd is notified three times within the time that the unit gives', () => {
  assert.equal(watchdogEveryMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '42' }, 42), 10_000)
  assert.equal(watchdogEveryMs({ WATCHDOG_USEC: '30000000' }, 42), 10_000)
})

test('without a watchdog, or with that of another process, nothing is sent', () => {
  assert.equal(watchdogEveryMs({}, 42), undefined)
  assert.equal(watchdogEveryMs({ WATCHDOG_USEC: '0' }, 42), undefined)
  assert.equal(watchdogEveryMs({ WATCHDOG_USEC: 'never' }, 42), undefined)
  assert.equal(watchdogEveryMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '41' }, 42), undefined)
  startWatchdog(undefined, () => assert.fail('sent')).end()
})

test('each turn sends one, at once and again, and the end sends no more', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const sent: string[] = []
  const watchdog = startWatchdog(1000, (state) => sent.push(state))
  t.mock.timers.tick(2000)
  watchdog.end()
  t.mock.timers.tick(5000)
  assert.deepEqual(sent, ['WATCHDOG=1', 'WATCHDOG=1', 'WATCHDOG=1'])
})
