import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestOf } from './connection.ts'

const at = (address: string) => requestOf(new URL(address, 'https://192.0.2.1:9000'))

test('a page without a query shows the serial console, and waits for starts', () => {
  assert.deepEqual(at('/ui/console/web-1'), { vm: 'web-1', mode: 'tty', follow: true })
})

test('SSH takes its own parameters from the address, and no others', () => {
  assert.deepEqual(
    at('/ui/console/web-1?mode=ssh&user=&accept_host_key=SHA256:a%2Bb+c&since=4&follow=true'),
    { vm: 'web-1', mode: 'ssh', user: undefined, acceptHostKey: 'SHA256:a+b+c' },
  )
})

test('the user of the SSH form means nothing to the serial console', () => {
  assert.deepEqual(at('/ui/console/web-1?mode=tty&user=root'), { vm: 'web-1', mode: 'tty', follow: true })
})
