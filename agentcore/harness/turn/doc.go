// Package turn decides how a turn of the agent goes on when a model request has ended: a pure table and its budgets.
//
//	Response ─Next─▶ Answer · Round · Resend · CarryOn · Fail · Abandon
package turn
