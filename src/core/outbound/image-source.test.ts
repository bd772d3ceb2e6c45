import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkSource } from './image-source.ts'

const refusal = (text: string, allowFile = true): string => {
  const checked = checkSource(text, allowFile)
  assert.ok(!checked.ok, `${text} is taken`)
  return checked.error
}

test('a file is taken only if a directory of images is configured, and from this host alone', () => {
  assert.match(refusal('file:///srv/images/a', false), /no local image directory/)
  assert.match(refusal('file://host.example.org/a'), /another host/)
  const checked = checkSource('file:///srv/images/a', true)
  assert.ok(checked.ok && checked.value.kind === 'local')
})

test('all else is remote, and is judged when this host connects to it', () => {
  for (const url of ['https://images.example.org/a.raw?X-Signature=s', 'ftp://example.org/a', 'data:,a']) {
    const checked = checkSource(url, false)
    assert.ok(checked.ok && checked.value.kind === 'remote', url)
  }
})

test('what is not an absolute URL is not a source', () => {
  for (const url of ['a.raw', '', '//example.org/a', 'https://[secret'])
    assert.match(refusal(url), /not an absolute/)
})

test('a refusal does not repeat the URL', () => {
  for (const url of ['https://[secret', 'file://secret/a']) assert.doesNotMatch(refusal(url), /secret/)
})
