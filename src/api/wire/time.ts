import { Type } from 'typebox'

export const timeSchema = Type.String({ format: 'date-time', examples: ['2030-01-01T12:00:00.000Z'] })

/** RFC 3339 in UTC with milliseconds. */
export const time = (ms: number): string => new Date(ms).toISOString()
