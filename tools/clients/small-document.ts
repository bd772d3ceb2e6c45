import type { Document, Schema } from './document.ts'

/** A document for tests, with one of each that a writer must know. */
export const SMALL_DOCUMENT: Document = {
  info: { version: '1.2.3' },
  paths: {
    '/v1/things/{id}': {
      put: {
        operationId: 'setThing',
        summary: 'Set a thing',
        description: String.raw`It says \d.`,
        parameters: [
          { name: 'dry_run', in: 'query', schema: { type: 'boolean' } },
          { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
          { name: 'if-match', in: 'header', schema: { type: 'string' } },
        ],
        requestBody: { content: { 'application/json': { schema: refTo('SetThing') } } },
        responses: {
          200: { content: { 'application/json': { schema: refTo('Thing') } } },
          204: {},
          404: { content: { 'application/problem+json': { schema: { oneOf: [] } } } },
        },
      },
    },
    '/v1/stream': {
      get: {
        operationId: 'stream',
        summary: 'Stream',
        responses: { 200: { content: { 'text/event-stream': { schema: { type: 'string' } } } } },
      },
    },
  },
  components: {
    schemas: {
      SetThing: {
        type: 'object',
        required: ['owner_id', 'parts'],
        properties: {
          size_mib: { type: 'integer', description: 'How large. Absent: as it is.' },
          mode: { type: ['string', 'null'], enum: ['on', 'off', null], description: 'Removed if `null`.' },
          names: { type: 'array', items: { type: 'string' } },
          servers: { anyOf: [{ type: 'array', items: { type: 'string' } }, { type: 'null' }] },
          owner_id: { type: 'string' },
          parts: { type: 'array', items: { type: 'string' } },
        },
      },
      Thing: {
        type: 'object',
        required: ['labels'],
        properties: {
          from: { type: 'string' },
          labels: { type: 'object', additionalProperties: { type: 'string' } },
        },
      },
    },
  },
}

function refTo(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` }
}
