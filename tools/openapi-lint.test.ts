import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lintOpenApi } from './openapi-lint.ts'

const good = {
  openapi: '3.1.0',
  info: { title: 't', version: '1', license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
  servers: [{ url: '/' }],
  security: [],
  paths: {
    '/a': {
      get: {
        operationId: 'getA',
        summary: 'A',
        responses: { 200: { description: 'ok' }, 400: { description: 'not ok' } },
      },
    },
  },
}

test('the linter lets a good document pass, and reports errors and warnings alike', async () => {
  assert.deepEqual(await lintOpenApi(good), [])
  const { license: _, ...info } = good.info
  const findings = await lintOpenApi({ ...good, info, security: undefined })
  assert.deepEqual(
    findings.map((finding) => finding.split(':', 1)[0]),
    ['error security-defined at #/paths/~1a/get', 'warn info-license at #/info'],
  )
})
