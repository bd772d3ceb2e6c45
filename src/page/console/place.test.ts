import assert from 'node:assert/strict'
import { test } from 'node:test'
import { placeOf, routeOf } from './place.ts'

const at = (address: string) => placeOf(new URL(address, 'https://192.0.2.1:9000'))
const window = { cols: 80, rows: 24 }

test('a page without a query shows the serial console, and waits for starts', () => {
  const place = at('/ui/console/web-1')
  assert.deepEqual(place, { id: 'web-1', mode: 'tty', ssh: {} })
  assert.equal(
    routeOf(place, window, undefined),
    '/v1/vms/web-1/console?mode=tty&cols=80&rows=24&follow=true',
  )
})

test('a page that has read comes back for what it missed', () => {
  const route = routeOf(at('/ui/console/web-1'), window, { session: '00000000000000ab', cursor: 4096 })
  const { searchParams } = new URL(route, 'https://192.0.2.1:9000')
  assert.equal(searchParams.get('session'), '00000000000000ab')
  assert.equal(searchParams.get('since'), '4096')
})

test('SSH takes its own parameters from the address, and no others', () => {
  const place = at('/ui/console/web-1?mode=ssh&user=&accept_host_key=SHA256:a%2Bb+c&since=4&follow=true')
  assert.deepEqual(place, { id: 'web-1', mode: 'ssh', ssh: { accept_host_key: 'SHA256:a+b+c' } })
  assert.equal(
    routeOf(place, window, undefined),
    '/v1/vms/web-1/console?mode=ssh&cols=80&rows=24&accept_host_key=SHA256%3Aa%2Bb%2Bc',
  )
})

test('the user of the SSH form means nothing to the serial console', () => {
  assert.deepEqual(at('/ui/console/web-1?mode=tty&user=root').ssh, {})
})
