import assert from 'node:assert/strict'
import { test } from 'node:test'
import { advertisedDevicesIn } from './host-features.ts'

const ZERO = '0'.repeat(32)
const ROUTER = 'fe8000000000000000fc00fffe000001'
const line = (destination: string, flags: string, device: string): string =>
  `${destination} ${ZERO} 00 ${ROUTER} 00000400 00000003 00000000 ${flags} ${device.padStart(8)}\n`
const anywhere = `${ZERO} 00`

test('a device has an advertised route if the kernel learned its default route from an advertisement', () => {
  const routes =
    line(anywhere, '00450003', 'eth0') +
    line(anywhere, '00450003', 'eth0') +
    line(anywhere, '00450003', 'eth1.7')
  assert.deepEqual(advertisedDevicesIn(routes), ['eth0', 'eth1.7'])
})

test('routes to a network, routes that a program added, and the route that rejects do not count', () => {
  const routes =
    line(`20010db8${'0'.repeat(24)} 40`, '00040001', 'eth0') +
    line(anywhere, '00000003', 'eth0') +
    line(anywhere, '00200200', 'lo')
  assert.deepEqual(advertisedDevicesIn(routes), [])
  assert.deepEqual(advertisedDevicesIn(''), [])
})
