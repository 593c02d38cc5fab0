"""FedCS's Algorithm 3 with loops and the paper's symbols."""

from __future__ import annotations


def multicast(S, theta, D_m):
    """T^d_S: the slowest member's throughput decides."""
    return D_m / min(theta[k] for k in S) if S else 0.0


def client_selection(K, t_UD, theta, D_m, T_round, T_cs=0.0, T_agg=0.0, most=10**9):
    """S in the order of uploads, and Θ."""
    K, S, Theta = list(K), [], 0.0
    while K and len(S) < most:
        best, best_score = None, -1.0
        for k in K:
            t_UL = D_m / theta[k]
            longer = multicast([*S, k], theta, D_m) - multicast(S, theta, D_m) + t_UL + max(0.0, t_UD[k] - Theta)
            score = 1.0 / longer if longer > 0 else float("inf")
            if best is None or score > best_score * (1 + 1e-9):
                best, best_score = k, score
        K.remove(best)
        Theta_new = Theta + D_m / theta[best] + max(0.0, t_UD[best] - Theta)
        if T_cs + multicast([*S, best], theta, D_m) + Theta_new + T_agg < T_round:
            Theta = Theta_new
            S.append(best)
    return S, Theta
